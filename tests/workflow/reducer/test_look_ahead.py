from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint
from tests.workflow.test_cut_anywhere import BLOCKS, Witness, make, play
from tests.workflow.world import ListRecorder, PowerCut, handed_over
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Retry, Waiting, Workflow

ENGINE = NativeEngine()
PLACE = st.integers(0, 999)
"""Which of several; how many there are depends on how quickly steps end beside each other."""


def ahead(wf: Workflow, checkpoint: Checkpoint, now: datetime | None = None) -> Any:
    return ENGINE.look_ahead(wf, handed_over(checkpoint), now or datetime.now(UTC))


async def go_on(wf: Workflow, checkpoint: Checkpoint) -> tuple[Any, list[Any]]:
    """Go on without any answer; return how that ends and the events."""
    recorder = ListRecorder()
    outcome = await wf.run(checkpoint=handed_over(checkpoint), storage=recorder, park_after=0)
    return outcome, [event for commit in recorder.commits for event in commit.events]


@given(
    blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4),
    message=st.integers(0, 5),
    cuts=st.lists(st.integers(0, 12), max_size=2),
    place=PLACE,
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_a_checkpoint_is_about_to_do_is_what_it_does(blocks: list[str], message: int, cuts: list[int], place: int):
    witness = Witness()
    wf = make(blocks, witness)
    _, seen, _ = asyncio.run(play(wf, {"message": message}, cuts, witness.truth))
    chosen = seen[place % len(seen)]
    found = ahead(wf, chosen)
    outcome, events = asyncio.run(go_on(wf, chosen))
    asked = {request.key for request in (*chosen.requests, *found.asks)}
    if isinstance(outcome, Waiting):
        assert asked <= {request.key for request in outcome.requests}
    else:
        assert not asked
    started = {(event.step, event.data["activation"]) for event in events if event.kind == "step.started"}
    ended = {(e.step, e.data["activation"]) for e in events if e.kind in {"step.finished", "step.waiting"}}
    queued = {(one.step, one.activation) for one in found.doing if one.does == "queues"}
    under_way = {(one.step, one.activation) for one in found.doing}
    assert ended - started <= under_way
    assert started & under_way <= queued
    running = {(one.step, one.activation) for one in found.doing if one.does == "runs"}
    assert running <= ended
    calls = {e.data["name"] for e in events if e.kind == "call.done" and (e.step, e.data["activation"]) in under_way}
    again = {call.name for one in found.doing for call in one.calls if call.state == "again"}
    assert again <= calls


@given(blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4), message=st.integers(0, 5), place=PLACE)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_looking_changes_nothing(blocks: list[str], message: int, place: int):
    witness = Witness()
    wf = make(blocks, witness)
    _, seen, _ = asyncio.run(play(wf, {"message": message}, [], witness.truth))
    done = witness.effects.copy()
    chosen = seen[place % len(seen)]
    before = chosen.model_dump_json()
    ENGINE.look_ahead(wf, chosen, datetime.now(UTC))
    assert chosen.model_dump_json() == before
    assert witness.effects == done


def test_a_call_that_was_cut_off_is_asked_about_first():
    witness = Witness()
    wf = make(["once"], witness)
    recorder = ListRecorder(2)
    with pytest.raises(PowerCut):
        asyncio.run(wf.run(1, storage=recorder))
    found = ahead(wf, recorder.latest)
    while not found.asks:
        recorder = ListRecorder(recorder.dies_after + 1)
        with pytest.raises(PowerCut):
            asyncio.run(wf.run(1, storage=recorder))
        found = ahead(wf, recorder.latest)
    (doing,) = found.doing
    assert [(call.name, call.state, call.once) for call in doing.calls] == [("do", "unknown", True)]
    assert doing.asks == (found.asks[0].key,)


def test_sleeps_and_retries_say_until_when():
    wf = Workflow("naps")

    @wf.step(start=True)
    async def nap(n: int, ctx: Context) -> int:
        await ctx.sleep(3600)
        return n

    @wf.step(start=True, retry=Retry(attempts=3, delay=3600))
    async def fail(n: int) -> int:
        raise ValueError("no")

    outcome = asyncio.run(wf.run(1))
    assert isinstance(outcome, Waiting)
    found = {one.step: one for one in ahead(wf, outcome.checkpoint).doing}
    assert {step: one.does for step, one in found.items()} == {"nap": "sleeps", "fail": "retries"}
    assert all(one.until > datetime.now(UTC) for one in found.values())
    later = {one.step: one.does for one in ahead(wf, outcome.checkpoint, datetime.now(UTC) + timedelta(hours=2)).doing}
    assert later == {"nap": "runs", "fail": "runs"}


class Claim(BaseModel):
    amount: int


class Notes(BaseModel):
    limit: int = 100
    claim: Claim | None = None


def test_it_says_what_may_be_written_in_place_of_messages_and_state():
    wf = Workflow("typed", state=Notes)

    @wf.step(start=True)
    async def review(claim: Claim, ctx: Context) -> int:
        await ctx.ask("Pay?", answer=bool)
        return claim.amount

    outcome = asyncio.run(wf.run(Claim(amount=3)))
    found = ahead(wf, outcome.checkpoint)
    (doing,) = found.doing
    assert (doing.message, doing.first, doing.does) == ({"amount": 3}, True, "waits")
    assert doing.takes["properties"]["amount"] == {"title": "Amount", "type": "integer"}
    assert found.state_schema["additionalProperties"] is False
    assert found.state_schema["properties"]["claim"]["anyOf"][0] == {"$ref": "#/$defs/Claim"}
    assert "Claim" in found.state_schema["$defs"]


def test_another_graph_s_checkpoint_is_refused_in_words():
    wf, witness = make(["plain"], Witness()), Witness()
    _, seen, _ = asyncio.run(play(make(["ask"], witness), {"message": 1}, [], witness.truth))
    with pytest.raises(Incompatible, match="migrate the run first"):
        ahead(wf, seen[0])

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint
from tests.workflow.test_cut_anywhere import BLOCKS, Outside, Witness, make, play
from tests.workflow.world import ListRecorder, PowerCut, failed, finished, flow, handed_over
from wfdash.contract import Edits, InvalidInput
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Workflow, all_of, each, gather

ENGINE = NativeEngine()
PLACE = st.integers(0, 999)
"""Which of several; how many there are depends on how quickly steps end beside each other."""


def edited(wf: Workflow, checkpoint: Checkpoint, **edits: Any) -> Checkpoint:
    found = ENGINE.edit(wf, handed_over(checkpoint), Edits(**edits))
    return handed_over(checkpoint.model_copy(update={"body": found.body, "requests": found.requests}))


def problems(wf: Workflow, checkpoint: Checkpoint, **edits: Any) -> list[Mapping[str, Any]]:
    with pytest.raises(InvalidInput) as caught:
        edited(wf, checkpoint, **edits)
    return caught.value.errors


@given(blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4), message=st.integers(0, 5), place=PLACE)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_writing_down_again_what_is_there_changes_nothing_but_the_record(blocks: list[str], message: int, place: int):
    witness = Witness()
    wf = make(blocks, witness)
    expected, seen, log = asyncio.run(play(wf, {"message": message}, [], witness.truth))
    chosen = seen[place % len(seen)]
    doing = ENGINE.look_ahead(wf, chosen, chosen.created).doing
    unsure = {one.activation for one in doing for call in one.calls if call.once and call.state != "done"}
    messages = {o.activation: o.message for o in doing if o.takes is not None and o.activation not in unsure}
    again = edited(wf, chosen, state=chosen.body["state"], messages=messages)
    output, _, found = asyncio.run(play(wf, {"checkpoint": again}, [], witness.truth))
    assert output == expected
    assert found == log


def test_a_failed_step_goes_on_with_the_message_it_should_have_had():
    async def read(text: str) -> int:
        return int(text)

    wf = flow(read)
    outcome = asyncio.run(wf.run("twelve"))
    assert "ValueError" in failed(outcome)
    (doing,) = ENGINE.look_ahead(wf, outcome.checkpoint, outcome.checkpoint.created).doing
    mended = edited(wf, outcome.checkpoint, messages={doing.activation: "12"})
    assert finished(asyncio.run(wf.run(checkpoint=mended))) == 12


class Line(BaseModel):
    amount: int = Field(ge=0)
    at: datetime | None = None


class Limits(BaseModel):
    limit: int = 100
    seen: list[int] = []


def typed() -> Workflow:
    wf = Workflow("typed", state=Limits)

    @wf.step(start=True)
    async def check(line: Line, ctx: Context) -> int:
        if line.amount > ctx.state.limit:
            raise ValueError("too much")
        return line.amount

    return wf


def test_what_does_not_fit_is_said_at_its_field_all_at_once():
    wf = typed()
    outcome = asyncio.run(wf.run(Line(amount=500)))
    found = problems(
        wf, outcome.checkpoint, state={"limit": "much", "extra": 1}, messages={"1": {"amount": -1}, "9": None}
    )
    assert [problem["loc"] for problem in found] == [
        ["state", "limit"],
        ["state", "extra"],
        ["state", "seen"],
        ["messages", "1", "amount"],
        ["messages", "9"],
    ]


def test_the_state_is_read_again_by_what_is_under_way():
    wf = typed()
    outcome = asyncio.run(wf.run(Line(amount=500)))
    again = edited(wf, outcome.checkpoint, state={"limit": 500, "seen": []})
    assert finished(asyncio.run(wf.run(checkpoint=again))) == 500


def test_values_are_kept_as_their_type_writes_them():
    wf = typed()
    outcome = asyncio.run(wf.run(Line(amount=500)))
    given = {"amount": 5, "at": "2026-01-01T00:00:00Z"}
    found = ENGINE.edit(wf, outcome.checkpoint, Edits(messages={"1": given}))
    assert found.body["position"]["live"]["1"]["message"] == [0, given]
    assert found.input == (given,)
    assert "restarts" in found.words[0]


def test_a_question_of_a_step_that_starts_over_is_asked_again():
    wf = make(["ask"], Outside())
    outcome = asyncio.run(wf.run(1))
    (doing,) = ENGINE.look_ahead(wf, outcome.checkpoint, outcome.checkpoint.created).doing
    found = ENGINE.edit(wf, outcome.checkpoint, Edits(messages={doing.activation: 40}))
    assert (found.requests, found.closed, found.input) == ((), doing.asks, ())
    again = asyncio.run(wf.run(checkpoint=edited(wf, outcome.checkpoint, messages={doing.activation: 40})))
    (request,) = again.requests
    assert finished(asyncio.run(wf.run(checkpoint=again.checkpoint, answers={request.key: 2}))) == 42


def test_a_step_of_which_it_is_unknown_what_it_did_does_not_start_over():
    wf = make(["once"], Witness())
    found: list[Any] = []
    for cut in range(2, 9):
        recorder = ListRecorder(cut)
        with pytest.raises(PowerCut):
            asyncio.run(wf.run(1, storage=recorder))
        doing = ENGINE.look_ahead(wf, recorder.latest, recorder.latest.created).doing
        if doing and any(call.state == "unknown" for call in doing[0].calls):
            found = problems(wf, recorder.latest, messages={doing[0].activation: 3})
            break
    assert "The outcome of do is unknown" in found[0]["msg"]


def test_what_a_join_collected_is_a_list_of_which_each_is_checked():
    wf = Workflow("joined")

    @wf.step(start=True)
    async def split(n: int) -> list[int]:
        return list(range(n))

    @wf.step(after=each(split))
    async def item(n: int) -> Line:
        return Line(amount=n)

    @wf.step(after=gather(item))
    async def total(lines: list[Line]) -> int:
        raise ValueError(sum(line.amount for line in lines))

    outcome = asyncio.run(wf.run(3))
    assert failed(outcome) == "ValueError: 3"
    (doing,) = ENGINE.look_ahead(wf, outcome.checkpoint, outcome.checkpoint.created).doing
    assert (doing.takes["type"], doing.takes["items"]["title"]) == ("array", "Line")
    activation = doing.activation
    wrong = problems(wf, outcome.checkpoint, messages={activation: [{"amount": 1}, {"amount": "x"}]})
    assert wrong[0]["loc"] == ["messages", activation, 1, "amount"]
    assert problems(wf, outcome.checkpoint, messages={activation: 3})[0]["msg"].startswith("Must be a list")
    again = edited(wf, outcome.checkpoint, messages={activation: [{"amount": 8}]})
    assert failed(asyncio.run(wf.run(checkpoint=again))) == "ValueError: 8"


def test_an_untyped_step_keeps_the_type_its_message_was_made_with():
    wf = Workflow("untyped")

    @wf.step(start=True)
    async def make_line(n: int) -> Line:
        return Line(amount=n)

    @wf.step(after=all_of(make_line))
    async def use(got: Any) -> int:
        raise ValueError(type(got[0]).__name__, got[0].amount)

    outcome = asyncio.run(wf.run(3))
    (doing,) = ENGINE.look_ahead(wf, outcome.checkpoint, outcome.checkpoint.created).doing
    again = edited(wf, outcome.checkpoint, messages={doing.activation: [{"amount": 4}]})
    assert "('Line', 4)" in failed(asyncio.run(wf.run(checkpoint=again)))


def test_the_input_of_a_sub_workflow_that_starts_the_run_can_be_changed():
    child = make(["plain"], Outside(), "child")
    wf = Workflow("outer")
    wf.sub("part", child, start=True)
    recorder = ListRecorder(1)
    with pytest.raises(PowerCut):
        asyncio.run(wf.run(1, storage=recorder))
    (doing,) = ENGINE.look_ahead(wf, recorder.latest, recorder.latest.created).doing
    assert (doing.step, doing.first, doing.takes) == ("part", True, {"type": "integer"})
    again = edited(wf, recorder.latest, messages={doing.activation: 10})
    assert finished(asyncio.run(wf.run(checkpoint=again))) == 12


def test_another_graph_s_checkpoint_is_not_edited():
    outcome = asyncio.run(make(["ask"], Outside()).run(1))
    with pytest.raises(Incompatible):
        ENGINE.edit(typed(), outcome.checkpoint, Edits(state={}))


@given(
    blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4),
    message=st.integers(0, 5),
    new=st.integers(0, 9),
    place=PLACE,
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_message_is_put_in_place_the_run_goes_on_to_an_end(
    blocks: list[str], message: int, new: int, place: int
):
    witness = Witness()
    wf = make(blocks, witness)
    _, seen, _ = asyncio.run(play(wf, {"message": message}, [], witness.truth))
    chosen = seen[place % len(seen)]
    doing = [
        one
        for one in ENGINE.look_ahead(wf, chosen, chosen.created).doing
        if isinstance(one.message, int) and not any(call.once and call.state != "done" for call in one.calls)
    ]
    if doing:
        one = doing[place % len(doing)]
        again = edited(wf, chosen, messages={one.activation: new})
        assert handed_over(again) == again
        asyncio.run(play(wf, {"checkpoint": again}, [], witness.truth))

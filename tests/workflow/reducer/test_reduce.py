"""The reducer alone: no event loop, no clock, no storage. A tick in; the next moment and commands out."""

from __future__ import annotations

import asyncio
import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from checkpoints.errors import Incompatible
from checkpoints.records import Answer, Checkpoint, ErrorInfo, EventDraft, Reason, Request
from tests.workflow.test_cut_anywhere import BLOCKS, Witness, make, play
from tests.workflow.world import ListRecorder, PowerCut, handed_over
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Retry, Waiting, Workflow, all_of, each, gather
from wfdash.workflow.reducer.moment import new_moment
from wfdash.workflow.reducer.reduce import reduce
from wfdash.workflow.reducer.ticks import (
    AnswersArrived,
    CallDone,
    CloseRequest,
    Command,
    CompleteRun,
    FailRun,
    MakeCall,
    Moment,
    OperationIssued,
    ResolveEntry,
    Route,
    RunResumed,
    RunStarted,
    RunStep,
    SaveCheckpoint,
    StepEnded,
    StepFailed,
    StepsIdle,
    Tick,
    TimePassed,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def take(wf: Workflow, moment: Moment, tick: Tick) -> tuple[Moment, list[Command]]:
    """Reduce; check that the old moment is untouched and the new one is plain JSON."""
    before = copy.deepcopy(moment.position)
    fresh, commands = reduce(wf.graph, "run", moment, tick)
    assert moment.position == before
    assert json.loads(json.dumps(fresh.position)) == fresh.position
    return fresh, commands


def began(wf: Workflow, *starts: str) -> tuple[Moment, list[Command]]:
    routes = tuple(Route(name, None, ((0, [None, 1]),)) for name in starts)
    return take(wf, new_moment(), RunStarted(at=NOW, routes=routes, state={}))


def ended(
    wf: Workflow, activation: str, step: str, value: Any = 1, items: list[Any] | None = None, **more: Any
) -> StepEnded:
    edges = wf.graph.nodes[step].out
    spread = tuple(enumerate([[None, item] for item in items])) if items is not None else ((0, [None, value]),)
    routes = tuple(Route(edge.target, edge, spread) for edge in edges)
    output = None if routes else [None, value]
    return StepEnded(at=NOW, activation=activation, routes=routes, output=output, **more)


def runs(commands: list[Command]) -> list[str]:
    return [c.activation for c in commands if isinstance(c, RunStep)]


def notes(commands: list[Command]) -> list[str]:
    return [c.kind for c in commands if isinstance(c, EventDraft)]


def chain() -> Workflow:
    wf = Workflow("chain")
    wf.step(start=True, name="a")(lambda n: n)
    wf.step(after="a", name="b")(lambda n: n)
    return wf


def test_the_start_runs_the_start_steps_and_is_saved():
    moment, commands = began(chain(), "a")
    assert runs(commands) == ["1"]
    assert SaveCheckpoint(Reason.START) in commands
    assert moment.position["live"]["1"]["step"] == "a"


def test_an_ended_step_is_replaced_by_its_successor_in_one_moment():
    wf = chain()
    moment, _ = began(wf, "a")
    moment, commands = take(wf, moment, ended(wf, "1", "a"))
    assert list(moment.position["live"]) == ["2"]
    assert notes(commands) == ["step.finished", "step.started"]


def test_the_last_end_completes_the_run_with_its_output():
    wf = chain()
    moment, _ = began(wf, "a")
    moment, _ = take(wf, moment, ended(wf, "1", "a"))
    moment, commands = take(wf, moment, ended(wf, "2", "b", 7))
    assert CompleteRun() in commands
    assert moment.position["outputs"] == [[None, 7]]


def test_a_map_gathers_in_item_order_once_the_last_item_ended():
    wf = Workflow("map")
    wf.step(start=True, name="a")(lambda n: [])
    wf.step(after=each("a"), name="item")(lambda n: n)
    wf.step(after=gather("item"), name="end")(lambda got: got)
    moment, _ = began(wf, "a")
    moment, commands = take(wf, moment, ended(wf, "1", "a", items=["x", "y"]))
    first, second = runs(commands)
    moment, commands = take(wf, moment, ended(wf, second, "item", "Y"))
    assert runs(commands) == []
    moment, commands = take(wf, moment, ended(wf, first, "item", "X"))
    (end,) = runs(commands)
    assert moment.position["live"][end]["message"] == ["*", [[None, "X"], [None, "Y"]]]
    assert moment.position["joins"] == {}


def test_a_join_fires_when_the_other_branch_can_no_longer_come():
    wf = Workflow("join")
    wf.step(start=True, name="a")(lambda n: n)
    wf.step(start=True, name="b")(lambda n: n)
    wf.step(after=all_of("a", "b"), name="end")(lambda got: got)
    moment, _ = began(wf, "a", "b")
    moment, commands = take(wf, moment, ended(wf, "1", "a", "A"))
    assert runs(commands) == []
    moment, commands = take(wf, moment, StepEnded(at=NOW, activation="2", output=[None, "taken by none"]))
    (end,) = runs(commands)
    assert moment.position["live"][end]["message"] == ["*", [[None, "A"]]]


def question(key: str = "q") -> Request:
    return Request(key=key, step="a", card={"subject": "?"})


def asked(wf: Workflow) -> Moment:
    moment, _ = began(wf, "a")
    entry = {"k": "ask", "name": "q", "request": "q"}
    moment, commands = take(wf, moment, OperationIssued(at=NOW, activation="1", entry=entry, request=question()))
    assert question() in commands
    moment, _ = take(wf, moment, StepsIdle(at=NOW, activations={"1": (0,)}))
    return moment


def test_a_parked_step_does_not_run_again_until_its_answer_comes():
    wf = chain()
    moment = asked(wf)
    moment, commands = take(wf, moment, RunResumed(at=NOW))
    assert runs(commands) == []
    moment, commands = take(wf, moment, AnswersArrived(at=NOW, answers={"q": Answer(key="q", value=3, by="ana")}))
    assert CloseRequest("q") in commands
    assert ResolveEntry("1", 0) in commands
    assert moment.requests == {}
    assert moment.position["live"]["1"]["journal"][0]["answer"]["by"] == "ana"


def test_an_answer_in_the_same_breath_keeps_a_step_from_parking():
    wf = chain()
    moment, _ = began(wf, "a")
    entry = {"k": "ask", "name": "q", "request": "q"}
    moment, _ = take(wf, moment, OperationIssued(at=NOW, activation="1", entry=entry, request=question()))
    moment, _ = take(wf, moment, AnswersArrived(at=NOW, answers={"q": Answer(key="q", value=3)}))
    moment, _ = take(wf, moment, StepsIdle(at=NOW, activations={"1": (0,)}))
    assert runs(take(wf, moment, RunResumed(at=NOW))[1]) == ["1"]


def test_answers_no_one_waits_for_change_nothing():
    wf = chain()
    moment = asked(wf)
    fresh, commands = take(wf, moment, AnswersArrived(at=NOW, answers={"other": Answer(key="other", value=3)}))
    assert commands == []
    assert fresh.position == moment.position


def test_an_intent_is_saved_before_the_call_and_becomes_a_question_after_a_crash():
    wf = chain()
    moment, _ = began(wf, "a")
    entry = {"k": "call", "name": "pay", "once": True, "schema": {"type": "integer"}}
    moment, commands = take(wf, moment, OperationIssued(at=NOW, activation="1", entry=entry))
    assert commands.index(SaveCheckpoint(Reason.CALL, "a")) < commands.index(MakeCall("1", 0))
    crashed, commands = take(wf, moment, RunResumed(at=NOW))
    (request,) = crashed.requests.values()
    assert request.kind == "effect"
    told, commands = take(
        wf, crashed, AnswersArrived(at=NOW, answers={request.key: Answer(key=request.key, value={"action": "again"})})
    )
    assert MakeCall("1", 0) in commands
    done, commands = take(wf, told, CallDone(at=NOW, activation="1", index=0, result=[None, 5]))
    assert done.position["live"]["1"]["journal"][0]["result"] == [None, 5]
    assert ResolveEntry("1", 0) in commands


def test_a_failure_waits_for_its_next_attempt_and_time_starts_it():
    wf = chain()
    moment, _ = began(wf, "a")
    error = ErrorInfo(type="E", message="m")
    moment, commands = take(wf, moment, StepFailed(at=NOW, activation="1", error=error, delay=10, attempts=3))
    assert notes(commands) == ["step.failed", "step.retrying"]
    assert runs(take(wf, moment, RunResumed(at=NOW))[1]) == []
    assert runs(take(wf, moment, TimePassed(at=NOW + timedelta(seconds=9)))[1]) == []
    moment, commands = take(wf, moment, TimePassed(at=NOW + timedelta(seconds=10)))
    assert runs(commands) == ["1"]
    assert moment.position["live"]["1"]["attempt"] == 2


def test_the_last_failure_fails_the_run_and_leaves_the_step_to_be_tried_again():
    wf = chain()
    moment, _ = began(wf, "a")
    error = ErrorInfo(type="E", message="m")
    moment, commands = take(wf, moment, StepFailed(at=NOW, activation="1", error=error))
    assert FailRun(error) in commands
    assert runs(take(wf, moment, RunResumed(at=NOW))[1]) == ["1"]


def test_old_values_are_kept_only_as_long_as_someone_may_read_them():
    wf = Workflow("past")
    for name in ("a", "b", "c"):
        wf.step(start=True, name=name)(lambda n: n)
    moment, _ = began(wf, "a", "b", "c")
    moment, _ = take(wf, moment, ended(wf, "1", "a", writes={"k": ("set", 1)}))
    assert moment.position["past"] == {"k": [[1]]}
    moment, _ = take(wf, moment, ended(wf, "2", "b", writes={"other": ("set", 2)}))
    moment, _ = take(wf, moment, ended(wf, "3", "c", writes={"third": ("set", 3)}))
    assert moment.position["past"] == {}
    assert moment.state == {"k": 1, "other": 2, "third": 3}


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

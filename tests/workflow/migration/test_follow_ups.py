"""Follow-ups of native workflows: a run that begins with the state of a completed one."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from checkpoints.errors import Conflict, Incompatible
from checkpoints.ids import new_run_id
from checkpoints.memory import MemoryStorage
from checkpoints.records import Reason
from tests.worker.graphs import chat
from tests.workflow.world import finished as output_of
from tests.workflow.world import flow
from wfdash.contract import Continues, Finished, InvalidInput, Outcome, Waiting
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Workflow
from wfdash.workflow.errors import InvalidCall, InvalidWorkflow


def finished(outcome: Outcome) -> Finished:
    output_of(outcome)
    assert isinstance(outcome, Finished)
    return outcome


def parked(outcome: Outcome) -> Waiting:
    assert isinstance(outcome, Waiting)
    return outcome


async def test_a_follow_up_begins_with_the_state_of_the_run_before() -> None:
    wf, storage = chat(), MemoryStorage()
    first = finished(await wf.run({"text": "one"}, storage=storage))
    second = finished(await wf.run("two", follows=first.checkpoint, storage=storage))
    third = finished(await wf.run("three", follows=second.checkpoint, storage=storage))
    assert third.output == ["one", "two", "three"]
    runs = {outcome.checkpoint.run for outcome in (first, second, third)}
    assert {run.id for run in await storage.list_runs()} == runs
    assert len(runs) == 3
    again = await storage.get_latest(first.checkpoint.run)
    assert again is not None
    assert (again.id, again.body) == (first.checkpoint.id, first.checkpoint.body)


async def test_without_a_storage_the_application_keeps_both_ends() -> None:
    first = finished(await chat().run({"text": "one"}))
    asked = parked(await chat().run("two?", follows=first.checkpoint))
    (request,) = asked.requests
    second = finished(await chat().run(checkpoint=asked.checkpoint, answers={request.key: "!"}))
    assert second.output == ["one", "two?!"]
    events = [event.kind async for event in chat().run_stream("three", follows=second.checkpoint)]
    assert events[0] == "run.started"


async def test_the_first_checkpoint_of_a_run_may_be_stored_by_who_hands_it_over() -> None:
    wf, first, run = chat(), finished(await chat().run({"text": "one"})).checkpoint, new_run_id()
    head = first.model_copy(update={"run": run, "n": 1, "parent": first.id, "reason": Reason.FOLLOW_UP})
    second = finished(await wf.run("two", follows=head, run_id=run)).checkpoint
    assert (second.run, second.n > 2) == (run, True)


def test_only_the_message_of_a_follow_up_is_accepted_there_and_by_its_own_schema() -> None:
    engine, wf = NativeEngine(), chat()
    assert isinstance(engine, Continues)
    assert engine.describe(wf).follow_up_schema == {"title": "Message", "type": "string"}
    with pytest.raises(InvalidInput):
        engine.check_input(wf, "two")


async def test_a_step_may_start_a_run_and_follow_one_up() -> None:
    async def add(number: int, ctx: Context) -> int:
        ctx.state["sum"] = ctx.state.get("sum", 0) + number
        return int(ctx.state["sum"])

    wf = flow(add, follow_up=True)
    first = finished(await wf.run(2))
    assert finished(await wf.run(3, follows=first.checkpoint)).output == 5


async def test_new_fields_of_the_state_have_their_defaults_and_lost_ones_are_refused() -> None:
    class Small(BaseModel):
        said: list[str] = []

    class Big(Small):
        mood: str = "calm"

    small, big = chat(state=Small), chat(state=Big)
    first = finished(await small.run({"text": "one"})).checkpoint
    assert finished(await big.run("two", follows=first)).checkpoint.body["state"]["mood"] == "calm"
    second = finished(await big.run("two", follows=first)).checkpoint
    with pytest.raises(Incompatible, match="state has 'mood', which its model does not"):
        await small.run("three", follows=second)


async def test_what_does_not_go_together_is_refused_before_anything_runs() -> None:
    wf, plain = chat(), Workflow("plain")
    plain.step(start=True, name="only")(lambda: 1)
    first = finished(await wf.run({"text": "one"})).checkpoint
    asked = parked(await wf.run("two?", follows=first)).checkpoint
    with pytest.raises(InvalidCall, match="needs a message"):
        await wf.run(follows=first)
    with pytest.raises(InvalidCall, match="has no step with follow_up=True"):
        await plain.run(None, follows=finished(await plain.run(None)).checkpoint)
    with pytest.raises(InvalidCall, match="let that run end first"):
        await wf.run("three", follows=asked)
    with pytest.raises(InvalidCall, match="must be the last checkpoint"):
        await wf.run("three", follows=first.id)
    with pytest.raises(Incompatible, match="belongs to workflow 'chat'"):
        await chat("other").run("two", follows=first)
    with pytest.raises(Conflict):
        storage = MemoryStorage()
        ended = finished(await wf.run({"text": "one"}, storage=storage)).checkpoint
        await wf.run("two", follows=ended, run_id=ended.run, storage=storage)


def test_a_step_that_takes_follow_ups_is_part_of_the_signature_and_of_the_graph() -> None:
    def graph(**options: bool) -> Workflow:
        wf = Workflow("w")
        wf.step(start=True, name="a")(lambda message: message)
        wf.step(name="b", **options)(lambda message: message)
        return wf

    with pytest.raises(InvalidWorkflow, match="'b' can never be reached"):
        _ = graph().version
    assert graph(follow_up=True).version != graph(start=True).version
    assert NativeEngine().describe(graph(start=True)).follow_up_schema is None

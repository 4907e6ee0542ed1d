"""The one run method: every combination that works, every one that is refused before anything runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel, Field

from checkpoints.errors import Damaged, Incompatible
from checkpoints.ids import RunId
from checkpoints.memory import MemoryStorage
from tests.workflow.world import ListRecorder, PowerCut, answered, finished, flow, handed_over
from wfdash.contract import InvalidInput
from wfdash.workflow import Choice, Context, Waiting, Workflow
from wfdash.workflow.errors import InvalidCall


class Claim(BaseModel):
    amount: int = Field(gt=0)


wf = Workflow("claims")


@wf.step(start=True)
async def assess(claim: Claim) -> Claim:
    return claim


@wf.step(after=assess)
async def review(claim: Claim, ctx: Context) -> str:
    return f"{claim.amount} {await ctx.ask('pay?')}"


async def test_a_model_and_its_json_start_the_same_run():
    for message in (Claim(amount=5), {"amount": 5}):
        assert finished(await answered(wf, await wf.run(message), "yes")) == "5 yes"


async def test_a_storage_finds_the_latest_checkpoint_of_a_run():
    storage = MemoryStorage()
    outcome = await wf.run({"amount": 5}, storage=storage, run_id="r1")
    key = outcome.requests[0].key
    waiting = await wf.run(run_id="r1", storage=storage)
    assert isinstance(waiting, Waiting)
    done = await wf.run(answers={key: "yes"}, run_id="r1", storage=storage)
    assert finished(done) == "5 yes"
    assert finished(await wf.run(run_id="r1", storage=storage)) == "5 yes"
    assert (await storage.get_latest(RunId("r1"))) is not None


async def test_a_checkpoint_is_found_by_its_id():
    storage = MemoryStorage()
    outcome = await wf.run({"amount": 5}, storage=storage, run_id="r1")
    again = await wf.run(checkpoint=outcome.checkpoint.id, run_id="r1", storage=storage)
    assert again.requests == outcome.requests


class OnlySaves:
    """The least a storage can be."""

    def __init__(self) -> None:
        self.saved: list[Any] = []

    async def save(self, checkpoint: Any) -> str:
        self.saved.append(checkpoint)
        return str(checkpoint.id)


async def test_anything_with_save_is_a_storage():
    storage = OnlySaves()
    outcome = await wf.run({"amount": 5}, storage=storage)
    assert [c.n for c in storage.saved] == [1, 2, 3]
    assert storage.saved[-1] == outcome.checkpoint
    assert storage.saved[1].parent == storage.saved[0].id


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "message="),
        ({"run_id": "r"}, "storage="),
        ({"answers": {"x": 1}}, "checkpoint="),
        ({"checkpoint": "id"}, "storage="),
        ({"message": {"amount": 1}, "answers": {"x": 1}}, "answers="),
        ({"message": {"amount": 1}, "checkpoint": "id"}, "checkpoint="),
        ({"message": {"amount": 1}, "storage": object()}, "storage="),
        ({"run_id": "r", "storage": OnlySaves()}, "get_latest"),
        ({"run_id": "nobody", "storage": MemoryStorage()}, "no checkpoint"),
        ({"checkpoint": {"id": "x"}}, "model_validate"),
        ({"checkpoint": '{"id": "x"}'}, "model_validate_json"),
        ({"checkpoint": Waiting.model_construct(checkpoint=None)}, "outcome.checkpoint"),
        ({"message": {"amount": 1}, "storage": MemoryStorage}, "class MemoryStorage"),
        ({"run_id": 7, "storage": MemoryStorage()}, "run_id= is a int: an id is text"),
        ({"message": {"amount": 1}, "run_id": ""}, "run_id= is an empty str"),
        ({"message": {"amount": 1}, "run_id": ("a", "b")}, "run_id= is a tuple"),
        ({"checkpoint": ("a", "b"), "run_id": "r", "storage": MemoryStorage()}, "checkpoint= is a tuple"),
        ({"answers": ["x"], "run_id": "r", "storage": MemoryStorage()}, "dict"),
    ],
)
async def test_impossible_combinations_are_refused(arguments: dict[str, Any], words: str):
    with pytest.raises(InvalidCall, match=words):
        await wf.run(**arguments)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"state": {}, "position": {}},
        {"state": "x", "position": None},
        {"state": {}, "position": {"live": "x"}},
        {"position": ...},
        {"state": [], "position": ...},
        {"state": {}, "position": {"live": {"1": {"step": "assess"}}}},
        {"state": {}, "position": {"joins": {"a": "b"}}},
        {"state": {}, "position": {"outputs": "none"}},
    ],
)
async def test_a_body_that_no_run_has_written_is_damage(body: dict[str, Any]):
    good = (await wf.run({"amount": 5})).checkpoint
    position = good.body["position"]
    given = position if body.get("position") is ... else body.get("position")
    made = {**position, **given} if isinstance(given, dict) and given else given
    spoilt = good.model_copy(update={"body": {**body, "position": made} if "position" in body else body})
    with pytest.raises(Damaged, match="no state and position"):
        await wf.run(checkpoint=spoilt)
    with pytest.raises(Damaged, match="no state and position"):
        await wf.run({"amount": 1}, follows=spoilt)


async def test_a_checkpoint_of_another_run_or_workflow_is_refused():
    outcome = await wf.run({"amount": 5}, run_id="r1")
    with pytest.raises(InvalidCall, match="belongs to run r1"):
        await wf.run(checkpoint=outcome.checkpoint, run_id="r2")
    other = Workflow("claims")
    other.step(start=True, name="assess")(lambda claim: claim)
    with pytest.raises(Incompatible, match="steps that are gone: review"):
        await other.run(checkpoint=outcome.checkpoint)


async def test_bad_input_is_refused_at_the_field():
    with pytest.raises(InvalidInput) as caught:
        await wf.run({"amount": -1})
    assert caught.value.errors[0]["loc"] == ["amount"]


async def test_a_refused_answer_leaves_the_request_open():
    outcome = await wf.run({"amount": 5})
    with pytest.raises(InvalidInput):
        await answered(wf, outcome, 7)
    assert finished(await answered(wf, outcome, "yes")) == "5 yes"


async def test_the_stream_shows_each_event_after_its_commit_with_a_current_checkpoint():
    recorder = ListRecorder()
    kinds = []
    async with wf.run_stream({"amount": 5}, storage=recorder) as stream:
        with pytest.raises(InvalidCall):
            _ = stream.outcome
        async for event in stream:
            kinds.append(event.kind)
            assert stream.checkpoint in [c.checkpoint for c in recorder.commits]
    assert kinds == recorder.kinds
    assert isinstance(stream.outcome, Waiting)
    assert stream.checkpoint == stream.outcome.checkpoint


async def test_a_stream_that_is_left_stops_and_its_checkpoint_goes_on():
    async with wf.run_stream({"amount": 5}) as stream:
        async for event in stream:
            if event.kind == "step.finished":
                break
    outcome = await wf.run(checkpoint=handed_over(stream.checkpoint))
    assert finished(await answered(wf, outcome, "yes")) == "5 yes"


async def test_an_error_of_the_storage_ends_the_stream_with_that_error():
    stream = wf.run_stream({"amount": 5}, storage=FailingStorage())
    with pytest.raises(OSError, match="full"):
        async for _ in stream:
            pass


class FailingStorage:
    async def save(self, checkpoint: Any) -> None:
        raise OSError("disk full")


async def test_fifty_runs_of_one_definition_do_not_meet():
    async def whole(n: int) -> str:
        outcome = await answered(wf, await wf.run({"amount": n}), f"by {n}")
        return str(finished(outcome))

    results = await asyncio.gather(*(whole(n) for n in range(1, 51)))
    assert results == [f"{n} by {n}" for n in range(1, 51)]


async def test_a_crash_is_a_resume_without_answers():
    for cut in range(1, 3):
        recorder = ListRecorder(dies_after=cut)
        with pytest.raises(PowerCut):
            await wf.run({"amount": 5}, storage=recorder)
        outcome = await wf.run(checkpoint=recorder.latest)
        assert finished(await answered(wf, outcome, "yes")) == "5 yes"


def test_it_works_where_django_cannot_be_imported():
    code = """
import sys
sys.modules["django"] = None
import asyncio
from wfdash.workflow import Workflow
wf = Workflow("plain")
wf.step(start=True, name="one")(lambda n: n + 1)
assert asyncio.run(wf.run(1)).output == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


async def test_a_refused_choice_says_what_its_answer_looks_like():
    async def one(ctx: Context) -> str:
        return str(await ctx.ask(Choice(subject="Which?", options=("a", "b"))))

    chooses = flow(one)
    outcome = await chooses.run(None)
    with pytest.raises(InvalidInput, match=r'give \{"action": "a"\}, or another action: b'):
        await answered(chooses, outcome, "a")
    assert finished(await answered(chooses, outcome, {"action": "a"})) == "a"


async def test_an_unreadable_checkpoint_names_the_way_to_an_older_one():
    storage = MemoryStorage()
    outcome = await wf.run({"amount": 5}, storage=storage, run_id="r1")
    await storage.quarantine(RunId("r1"), outcome.checkpoint.id, "a test")
    with pytest.raises(Damaged, match=r"CheckpointManager\(storage\)\.recover"):
        await wf.run(run_id="r1", storage=storage)

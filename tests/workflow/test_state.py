"""State that steps share, and labels they give to checkpoints."""

from __future__ import annotations

import asyncio
import operator
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from checkpoints.content.canonical_json import DIGITS, LEVELS
from checkpoints.ids import new_run_id
from checkpoints.manager import CheckpointConfig, CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import Checkpoint, Reason
from tests.workflow.world import ListRecorder, PowerCut, answered, failed, finished, flow
from wfdash.contract import InvalidInput
from wfdash.workflow import Context, Failed, Finished, Question, Waiting, Workflow, each, gather


class Totals(BaseModel):
    total: Decimal = Decimal(0)
    names: list[str] = []


async def test_a_typed_state_has_defaults_attributes_and_survives_in_its_types():
    wf = Workflow("typed", state=Totals)

    @wf.step(start=True)
    async def one(ctx: Context) -> None:
        ctx.state.total += Decimal("1.10")
        ctx.state.names.append("in place")

    @wf.step(after=one)
    async def two(ctx: Context) -> list[str]:
        return [str(ctx.state["total"]), *ctx.state.names]

    outcome = await wf.run(None)
    assert finished(outcome) == ["1.10", "in place"]
    assert outcome.checkpoint.body["state"] == {"total": "1.10", "names": ["in place"]}


@pytest.mark.parametrize("bad", [{1: "a"}, (1,), float("nan"), {"deep": [1, {"x": b"y"}]}, object()])
async def test_what_cannot_be_stored_is_refused_with_its_path(bad: Any):
    async def one(ctx: Context) -> None:
        ctx.state["key"] = bad

    assert "NotStorable: state.key" in failed(await flow(one).run(None))


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def loop() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def passing(value: Any, where: str) -> Workflow:
    """Return a workflow that keeps a value in one place, and then asks."""
    wf = Workflow("passing")

    async def make() -> Any:
        return value

    @wf.step(start=True)
    async def one(message: Any, ctx: Context) -> Any:
        if where == "state.v":
            ctx.state["v"] = value
        if where == "result of 'make'":
            ctx.state["called"] = await ctx.call(make)
        if where == "event 'seen'":
            ctx.emit("seen", value)
        return value if where == "output of 'one'" else message

    @wf.step(after=one)
    async def two(got: Any, ctx: Context) -> Any:
        await ctx.ask(Question(subject="Go on?"))
        return got

    return wf


PLACES = ["state.v", "result of 'make'", "event 'seen'", "output of 'one'", "message"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [nested(LEVELS), 10**DIGITS - 1], ids=["levels", "digits"])
async def test_a_value_at_the_limits_is_kept_everywhere(value: Any, place: str):
    wf, storage, run = passing(value, place), MemoryStorage(), new_run_id()
    waiting = await wf.run(value if place == "message" else None, storage=storage, run_id=run)
    assert isinstance(waiting, Waiting), waiting
    done = await wf.run(answers={waiting.requests[0].key: "yes"}, storage=storage, run_id=run)
    assert finished(done) == (value if place in ("message", "output of 'one'") else None)


@pytest.mark.parametrize("place", PLACES[:4])
@pytest.mark.parametrize("levels", [LEVELS + 1, 195, 249, 252, 2_000])
async def test_a_value_that_is_nested_too_deeply_fails_the_step_that_made_it(levels: int, place: str):
    said = failed(await passing(nested(levels), place).run(None, storage=MemoryStorage()))
    assert f"NotStorable: {place}[0]" in said
    assert f"nested deeper than {LEVELS} levels" in said


@pytest.mark.parametrize("place", PLACES[:4])
@pytest.mark.parametrize("value", [10**DIGITS, [{"a": -(10**5_000)}], loop()], ids=["digits", "within", "loop"])
async def test_a_number_of_too_many_digits_and_a_value_in_itself_fail_the_step_that_made_them(value: Any, place: str):
    said = failed(await passing(value, place).run(None, storage=MemoryStorage()))
    assert f"NotStorable: {place}" in said


@pytest.mark.parametrize(
    "value", [nested(LEVELS + 1), nested(2_000), 10**DIGITS, loop()], ids=["100", "2000", "n", "l"]
)
async def test_a_message_beyond_the_limits_is_refused_before_anything_runs(value: Any):
    with pytest.raises(InvalidInput, match="message"):
        await passing(None, "message").run(value, storage=MemoryStorage())


async def test_a_declared_number_has_the_same_limit():
    async def one() -> int:
        return 10**DIGITS

    assert f"a whole number has at most {DIGITS} digits" in failed(await flow(one).run(None))


def overlapping(**options: Any) -> Workflow:
    wf = Workflow("overlap", **options)

    @wf.step(start=True)
    async def fast(ctx: Context) -> None:
        ctx.state["k"] = ["fast"]

    @wf.step(start=True)
    async def slow(ctx: Context) -> Any:
        await asyncio.sleep(0.01)
        seen = ctx.state.get("k")
        ctx.state["k"] = ["slow"]
        return seen

    return wf


async def test_overlapping_writers_of_one_key_are_an_error_that_names_both():
    message = failed(await overlapping().run(None))
    assert message.startswith("StateConflict: steps 'slow' and 'fast' overlap and both write state 'k'")


async def test_after_a_conflict_a_retry_of_the_run_sees_the_new_state():
    wf = overlapping()
    outcome = await wf.run(None)
    outcome = await wf.run(checkpoint=outcome.checkpoint)
    assert finished(outcome) == [None, ["fast"]]
    assert outcome.checkpoint.body["state"] == {"k": ["slow"]}


async def test_a_reducer_combines_overlapping_writes():
    outcome = await overlapping(reducers={"k": operator.add}).run(None)
    assert outcome.checkpoint.body["state"] == {"k": ["fast", "slow"]}


async def test_a_map_may_count_with_a_reducer():
    wf = Workflow("count", reducers={"n": operator.add})
    wf.step(start=True, name="read")(lambda items: items)

    @wf.step(after=each("read"))
    async def work(n: int, ctx: Context) -> None:
        await asyncio.sleep(0.001 * (n % 4))
        ctx.state["n"] = n

    @wf.step(after=gather(work))
    async def end(ctx: Context) -> int:
        return int(ctx.state["n"])

    outcome = await wf.run(list(range(50)))
    assert finished(outcome) == sum(range(50))


async def test_a_step_that_runs_again_sees_the_state_of_its_start():
    wf = Workflow("base")

    @wf.step(start=True)
    async def asks(ctx: Context) -> Any:
        before = ctx.state.get("k", "nothing")
        await ctx.ask("?")
        return [before, ctx.state.get("k", "nothing")]

    @wf.step(start=True)
    async def writes(ctx: Context) -> None:
        ctx.state["k"] = "written"

    outcome = await answered(wf, await wf.run(None), "x")
    assert finished(outcome)[-1] == ["nothing", "nothing"]
    assert outcome.checkpoint.body["state"] == {"k": "written"}


async def test_a_sub_workflow_keeps_its_own_names():
    child = Workflow("child", state=Totals)

    @child.step(start=True)
    async def inner(ctx: Context) -> int:
        ctx.state.total += 5
        return len(ctx.state)

    wf = Workflow("parent")

    @wf.step(start=True)
    async def begin(ctx: Context) -> None:
        ctx.state["total"] = "mine"

    wf.sub("part", child, after=begin)

    @wf.step(after="part")
    async def end(n: int, ctx: Context) -> Any:
        return [n, dict(ctx.state)]

    outcome = await wf.run(None)
    assert finished(outcome) == [2, {"total": "mine"}]
    assert outcome.checkpoint.body["state"]["part/total"] == "5"


async def test_removing_iterating_and_unknown_fields():
    async def one(ctx: Context) -> Any:
        ctx.state.update(a=1, b=2)
        del ctx.state["a"]
        return sorted(ctx.state)

    outcome = await flow(one).run(None)
    assert finished(outcome) == ["b"]
    assert outcome.checkpoint.body["state"] == {"b": 2}
    typed = Workflow("typed", state=Totals)

    @typed.step(start=True)
    async def wrong(ctx: Context) -> None:
        ctx.state.totl = 1

    assert "WrongType: the state has no field 'totl'" in failed(await typed.run(None))


labelled = Workflow("labelled")


@labelled.step(start=True)
async def work(ctx: Context) -> int:
    ctx.state["own"] = 1
    await ctx.checkpoint("half way")
    await ctx.checkpoint("almost there")
    return 1


parallel = Workflow("parallel")


@parallel.step(start=True)
async def both(ctx: Context) -> int:
    await asyncio.gather(*(ctx.checkpoint(f"label {i}") for i in range(5)))
    return 1


def labels(recorder: ListRecorder) -> list[tuple[str | None, Reason]]:
    return [(c.checkpoint.label, c.checkpoint.reason) for c in recorder.commits if c.checkpoint]


async def test_a_label_is_a_checkpoint_of_its_own() -> None:
    recorder = ListRecorder()
    assert isinstance(await labelled.run(None, storage=recorder), Finished)
    found = labels(recorder)
    assert [label for label, reason in found if reason is Reason.LABEL] == ["half way", "almost there"]
    half = next(c.checkpoint for c in recorder.commits if c.checkpoint and c.checkpoint.label == "half way")
    assert half.step == "work"
    assert half.body["state"] == {}


async def test_labels_given_at_once_are_all_kept() -> None:
    recorder = ListRecorder()
    await parallel.run(None, storage=recorder)
    assert sorted(label for label, _ in labels(recorder) if label) == [f"label {i}" for i in range(5)]


async def test_a_label_is_not_saved_again_when_the_step_runs_again() -> None:
    recorder = ListRecorder(dies_after=2)
    with pytest.raises(PowerCut):
        await labelled.run(None, storage=recorder)
    kept = Checkpoint.model_validate_json(recorder.latest.model_dump_json())
    assert kept.label == "half way"
    rest = ListRecorder()
    assert isinstance(await labelled.run(checkpoint=kept, storage=rest), Finished)
    assert [label for label, _ in labels(rest) if label] == ["almost there"]


async def test_a_label_is_saved_and_kept_whatever_the_policy() -> None:
    manager = CheckpointManager(MemoryStorage(), CheckpointConfig(when="pause", keep=1))
    outcome = await labelled.run(None, storage=manager)
    infos = await manager.list_checkpoints(outcome.checkpoint.run)
    assert [(info.label, info.reason) for info in infos] == [
        (None, Reason.END),
        ("almost there", Reason.LABEL),
        ("half way", Reason.LABEL),
    ]


@pytest.mark.parametrize("label", ["", " ", "x" * 201])
async def test_a_label_must_be_readable(label: str) -> None:
    async def work(ctx: Context) -> int:
        await ctx.checkpoint(label)
        return 1

    outcome = await flow(work).run(None)
    assert isinstance(outcome, Failed)
    assert "1 to 200 characters" in outcome.error.message

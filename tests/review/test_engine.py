"""The engine under odd steps: what they raise, change in place, leave behind, and how long they go on."""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from checkpoints.memory import MemoryStorage
from tests.workflow.world import ListRecorder, answered, failed, finished, flow, handed_over, same
from wfdash.values.codec import codec_for
from wfdash.workflow import Context, Question, Waiting, Workflow, all_of, each, gather
from wfdash.workflow.errors import InvalidCall, NotStorable


class Mute(Exception):
    """Cannot even say what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [Mute(), ValueError("\udcff"), ValueError("x" * 10_000_000), KeyError(b"\xff")])
async def test_an_error_that_cannot_be_told_fails_the_run_visibly(error: Exception):
    async def step() -> None:
        raise error

    outcome = await asyncio.wait_for(flow(step, name="odd").run(None, storage=MemoryStorage()), 60)
    assert failed(outcome).startswith(type(error).__name__)
    assert len(failed(outcome)) < 100_000
    failed(outcome).encode()


async def test_a_change_in_place_to_an_equal_value_of_another_type_is_kept():
    async def first(ctx: Context) -> None:
        ctx.state.numbers = [1, 0]

    async def second(ctx: Context) -> None:
        ctx.state.numbers[0] = True

    async def third(ctx: Context) -> str:
        return repr(ctx.state.numbers)

    assert finished(await flow(first, second, third, name="places").run(None)) == "[True, 0]"


class Colour(StrEnum):
    RED = "red"


@dataclass
class Loose:
    extra: Any


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (dict[str, Any], {"colour": Colour.RED}),
        (list[Any], [Colour.RED]),
        (Loose, Loose(extra=Colour.RED)),
        (Loose, Loose(extra=True)),
        (Loose, Loose(extra=(1, 2))),
        (dict[int, str], {1: "a"}),
        (dict[int, Any], {1: (2,)}),
    ],
)
def test_a_value_comes_back_in_its_own_type_or_is_refused(kind: Any, value: Any):
    codec = codec_for(kind)
    try:
        back = codec.decode(codec.encode(value))
    except NotStorable:
        return
    assert repr(back) == repr(value)


async def test_questions_of_a_sub_workflow_inside_a_map_are_answered_one_by_one():
    async def judge(name: str, ctx: Context) -> str:
        return f"{name}={await ctx.ask(Question(subject=name))}"

    wf = Workflow("parent")

    @wf.step(start=True)
    async def names() -> list[str]:
        return ["a", "b", "c"]

    each_child = wf.sub("judging", flow(judge, name="child"), after=each(names))

    @wf.step(after=gather(each_child))
    async def together(found: list[str]) -> str:
        return ",".join(found)

    outcome = await wf.run(None)
    for name in ("c", "a", "b"):
        assert isinstance(outcome, Waiting)
        key = next(r.key for r in outcome.requests if r.card["subject"] == name)
        outcome = await wf.run(answers={key: name.upper()}, checkpoint=handed_over(outcome.checkpoint))
    assert finished(outcome) == "a=A,b=B,c=C"


async def test_a_join_whose_branch_failed_waits_for_its_retry_and_repeats_no_other_branch():
    flow, ran = Workflow("joined"), []
    broken = [True]

    @flow.step(start=True)
    async def begin() -> int:
        return 1

    @flow.step(after=begin)
    async def good(n: int) -> str:
        ran.append("good")
        return "good"

    @flow.step(after=begin)
    async def bad(n: int) -> str:
        await asyncio.sleep(0.05)
        if broken.pop() if broken else False:
            raise ValueError("once")
        return "bad"

    @flow.step(after=all_of(good, bad))
    async def both(one: list[str]) -> str:
        return "+".join(one)

    outcome = await flow.run(None)
    assert failed(outcome) == "ValueError: once"
    again = await flow.run(checkpoint=handed_over(outcome.checkpoint))
    assert finished(again) == "good+bad"
    assert ran == ["good"]


async def test_nested_maps_over_nothing_gather_nothing():
    flow = Workflow("nothing")

    @flow.step(start=True)
    async def rows() -> list[list[int]]:
        return [[], [1, 2], []]

    row = flow.step(after=each(rows), name="row")(same)

    @flow.step(after=each(row))
    async def cell(value: int) -> int:
        return value * 10

    one = flow.step(after=gather(cell), name="one")(same)
    flow.step(after=gather(one), name="whole")(same)
    assert finished(await flow.run(None)) == [[], [10, 20], []]


async def test_two_hundred_questions_of_one_step_stay_quick_and_small():
    async def talk(ctx: Context) -> int:
        for number in range(200):
            if await ctx.ask(f"Question {number}") == "stop":
                break
        return number

    wf = flow(talk, name="talk")
    began = time.process_time()
    outcome = await wf.run(None)
    while isinstance(outcome, Waiting):
        outcome = await answered(wf, outcome, "on")
    assert finished(outcome) == 199
    assert time.process_time() - began < 15


async def test_a_finished_run_leaves_nothing_in_the_process():
    async def work(ctx: Context) -> str:
        task = asyncio.create_task(ctx.ask("Left behind?"))
        return str(await ctx.ask("Ready?")) + str(task.done())

    wf = flow(work, name="gone")

    async def once() -> None:
        outcome = await wf.run(None)
        assert isinstance(outcome, Waiting)

    await once()
    gc.collect()
    before = len(asyncio.all_tasks())
    for _ in range(20):
        await once()
    assert len(asyncio.all_tasks()) == before


async def test_a_stream_cannot_be_read_for_its_outcome_before_its_end_and_stops_when_closed():
    flow = Workflow("stream")
    ended: list[str] = []

    @flow.step(start=True)
    async def slow(ctx: Context) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")
        return ""

    async with flow.run_stream(None) as stream:
        async for event in stream:
            if event.kind == "step.started":
                break
        with pytest.raises(InvalidCall):
            _ = stream.outcome
    assert ended == ["ended"]


async def test_progress_that_cannot_be_stored_is_the_steps_own_error():
    async def work(ctx: Context) -> str:
        for bad in ("\udcff", 5):
            with pytest.raises(NotStorable):
                ctx.progress(0.5, bad)  # type: ignore[arg-type]
        return "told"

    assert finished(await flow(work, name="progress").run(None, storage=ListRecorder())) == "told"

"""Cut anywhere, resume, same result: over generated graphs with branches, maps, joins, loops, asks and calls."""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints.records import Checkpoint
from tests.workflow.world import ListRecorder, PowerCut, handed_over
from wfdash.workflow import Context, Finished, Waiting, Workflow, all_of, each, gather

BLOCKS = ("plain", "fork", "map", "loop", "ask", "call", "once", "ask_twice", "sub", "parallel")


@dataclass
class Outside:
    """Counts what happened in the world."""

    effects: Counter[str] = field(default_factory=Counter)

    def do(self, key: str, n: int) -> int:
        self.effects[key] += 1
        return n + 1


def make(blocks: list[str], outside: Outside, name: str = "generated", kind: type[Workflow] = Workflow) -> Workflow:
    """Chain the blocks one after another; each takes a number and gives a number."""
    wf = kind(name, reducers={"log": operator.add})
    last = wf.step(start=True, name="begin")(_plain)
    for place, block in enumerate(blocks):
        last = BUILD[block](wf, f"{block}{place}", last, outside)
    return wf


async def _plain(n: int, ctx: Context) -> int:
    ctx.state["log"] = [ctx.step.rsplit("/", 1)[-1]]
    return n + 1


def add_plain(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    return wf.step(after=after, name=name)(_plain)


def add_fork(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    even = wf.step(after=after, when=lambda n: n % 2 == 0, name=f"{name}-even")(_plain)
    always = wf.step(after=after, name=f"{name}-always")(_plain)

    @wf.step(after=all_of(even, always), name=f"{name}-join")
    async def join(got: list[int]) -> int:
        return sum(got)

    return join


def add_map(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    @wf.step(after=after, name=f"{name}-split")
    async def split(n: int) -> list[int]:
        return [n + i for i in range(n % 4)]

    @wf.step(after=each(split), name=f"{name}-item", concurrency=2)
    async def item(n: int, ctx: Context) -> int:
        return int(await ctx.call(outside.do, f"{name}:{n}", n, once=True))

    @wf.step(after=gather(item), name=f"{name}-gather")
    async def collect(got: list[int]) -> int:
        return sum(got)

    return collect


def add_loop(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    @wf.step(after=[after, f"{name}-again"], name=f"{name}-body")
    async def body(n: int) -> int:
        return n + 1

    wf.step(after=body, when=lambda n: n % 3 != 0, name=f"{name}-again")(_plain)
    return wf.step(after=body, otherwise=True, name=f"{name}-end")(_plain)


def add_ask(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    @wf.step(after=after, name=name)
    async def ask(n: int, ctx: Context) -> int:
        return n + int(await ctx.ask("how many?", answer=int))

    return ask


def add_ask_twice(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    @wf.step(after=after, name=name)
    async def ask(n: int, ctx: Context) -> int:
        first = await ctx.ask("first?", answer=int)
        done = await ctx.call(outside.do, f"{name}:{n}", n, once=True)
        ctx.state["log"] = [name]
        return first + done + int(await ctx.ask("second?", answer=int))

    return ask


def add_parallel(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    @wf.step(after=after, name=name)
    async def ask(n: int, ctx: Context) -> int:
        call = ctx.call(outside.do, f"{name}:{n}", n, once=True)
        return n + sum(await asyncio.gather(ctx.ask("a?", answer=int), call, ctx.ask("b?", answer=int)))

    return ask


def add_call(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    @wf.step(after=after, name=name)
    async def call(n: int, ctx: Context) -> int:
        return int(await ctx.call(lambda: n * 2))

    return call


def add_once(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    @wf.step(after=after, name=name)
    async def call(n: int, ctx: Context) -> int:
        return int(await ctx.call(outside.do, f"{name}:{n}", n, once=True))

    return call


def add_sub(wf: Workflow, name: str, after: Any, outside: Outside) -> Any:
    return wf.sub(name, make(["plain", "ask", "fork"], outside, name, type(wf)), after=after)


BUILD = {block: globals()[f"add_{block}"] for block in BLOCKS}


async def play(wf: Workflow, start: Any, cuts: list[int], truth: Any) -> tuple[Any, list[Checkpoint], Counter[str]]:
    """Run to the end, dying after as many commits as ``cuts`` says, once each."""
    cuts, seen, call = [*cuts], [], dict(start)
    while True:
        recorder = ListRecorder(cuts.pop() if cuts else None)
        try:
            outcome = await wf.run(**call, storage=recorder, park_after=0)
        except PowerCut:
            seen += [c.checkpoint for c in recorder.commits if c.checkpoint]
            call = {"checkpoint": seen[-1]} if seen else dict(start)
            continue
        seen += [c.checkpoint for c in recorder.commits if c.checkpoint]
        if isinstance(outcome, Finished):
            return outcome.output, seen, Counter(outcome.checkpoint.body["state"].get("log", []))
        assert isinstance(outcome, Waiting), outcome
        given = {request.key: truth(request) for request in outcome.requests}
        call = {"checkpoint": handed_over(outcome.checkpoint), "answers": given}


class Witness(Outside):
    """Knows the result of what happened, so that a person can tell."""

    def truth(self, request: Any) -> Any:
        return 2 if request.kind != "effect" else {"action": "again"}


@given(
    blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=5),
    message=st.integers(0, 5),
    cuts=st.lists(st.integers(0, 12), max_size=4),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_run_that_dies_anywhere_ends_like_one_that_does_not(blocks: list[str], message: int, cuts: list[int]):
    calm, rough = Witness(), Witness()
    expected, _, log = asyncio.run(play(make(blocks, calm), {"message": message}, [], calm.truth))
    output, _, rough_log = asyncio.run(play(make(blocks, rough), {"message": message}, cuts, rough.truth))
    assert output == expected
    assert rough_log == log
    assert rough.effects.keys() == calm.effects.keys()


@given(blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4), message=st.integers(0, 5), data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_checkpoint_of_a_run_leads_to_the_same_end(blocks: list[str], message: int, data: st.DataObject):
    calm = Witness()
    expected, seen, log = asyncio.run(play(make(blocks, calm), {"message": message}, [], calm.truth))
    chosen = data.draw(st.sampled_from(seen))
    start = {"checkpoint": handed_over(chosen)}
    output, _, again_log = asyncio.run(play(make(blocks, calm), start, [], calm.truth))
    assert output == expected
    assert again_log == log


def _say(request: Any) -> Any:
    return 2 if request.kind != "effect" else {"action": "happened", "result": 1}


@pytest.mark.parametrize("cut", range(1, 24))
def test_no_once_effect_ever_happens_twice_unless_a_person_says_so(cut: int):
    witness = Witness()
    wf = make(["once", "plain", "once", "map", "ask_twice", "parallel"], witness)
    asyncio.run(play(wf, {"message": 1}, [cut], _say))
    assert set(witness.effects.values()) == {1}


def test_each_single_cut_of_a_workflow_with_every_kind_of_block_ends_the_same():
    calm = Witness()
    expected, seen, log = asyncio.run(play(make(list(BLOCKS), calm), {"message": 3}, [], calm.truth))
    for cut in range(len(seen)):
        rough = Witness()
        output, _, rough_log = asyncio.run(play(make(list(BLOCKS), rough), {"message": 3}, [cut], rough.truth))
        assert (output, rough_log) == (expected, log), cut

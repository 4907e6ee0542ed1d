"""Every shape of graph runs as its definition says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from tests.workflow.world import ListRecorder, failed, finished, flow, same
from wfdash.workflow import Workflow, all_of, any_of, each, gather, n_of


class Small(BaseModel):
    n: int


class Large(BaseModel):
    n: int


class Named(BaseModel):
    name: str


async def test_a_chain_hands_each_output_to_the_next_step():
    async def one(n: int) -> int:
        return n + 1

    def two(n: int) -> str:
        return f"got {n}"

    assert finished(await flow(one, two).run(1)) == "got 2"


async def test_a_union_routes_by_type_even_when_the_fields_are_the_same():
    wf = Workflow("types")

    @wf.step(start=True)
    async def weigh(n: int) -> Small | Large:
        return Large(n=n) if n > 10 else Small(n=n)

    @wf.step(after=weigh)
    async def small(message: Small) -> str:
        return "small"

    @wf.step(after=weigh)
    async def large(message: Large) -> str:
        return "large"

    @wf.step(after=weigh)
    async def either(message: Small | Large) -> str:
        return type(message).__name__

    assert finished(await wf.run(50)) == ["large", "Large"]
    assert finished(await wf.run(5)) == ["small", "Small"]


@pytest.mark.parametrize(("n", "way"), [(1, "low"), (50, "rest"), (500, "high")])
async def test_when_and_otherwise_choose_one_way(n: int, way: str):
    wf = Workflow("ways")
    begin = wf.step(start=True, name="begin")(same)

    for name, when in (("low", lambda n: n < 10), ("high", lambda n: n > 100)):
        wf.step(after=begin, when=when, name=name)(lambda n, name=name: name)
    wf.step(after=begin, otherwise=True, name="rest")(lambda n: "rest")
    assert finished(await wf.run(n)) == way


@pytest.mark.parametrize(("n", "way"), [(1, "one"), (2, "two"), (9, "many")])
async def test_a_switch_evaluates_its_key_once_and_has_a_default(n: int, way: str):
    wf, seen = Workflow("switch"), []
    begin = wf.step(start=True, name="begin")(same)
    switch = wf.switch(begin, key=lambda n: seen.append(n) or n)
    for name, source in (("one", switch.case(1)), ("two", switch.case(2)), ("many", switch.default)):
        wf.step(after=source, name=name)(lambda n, name=name: name)
    assert finished(await wf.run(n)) == way
    assert seen == [n]


async def test_a_merge_runs_for_each_arrival():
    wf = Workflow("merge")
    wf.step(start=True, name="a")(lambda: 1)
    wf.step(start=True, name="b")(lambda: 2)
    wf.step(after=["a", "b"], name="c")(lambda n: n * 10)
    assert sorted(finished(await wf.run(None))) == [10, 20]


async def test_all_of_waits_for_all_and_keeps_the_declared_order():
    wf = Workflow("join")
    begin = wf.step(start=True, name="begin")(same)

    @wf.step(after=begin)
    async def slow(n: int) -> str:
        await asyncio.sleep(0.02)
        return "slow"

    @wf.step(after=begin)
    async def fast(n: int) -> str:
        return "fast"

    wf.step(after=all_of(slow, fast), name="join")(same)
    assert finished(await wf.run(1)) == ["slow", "fast"]


async def test_all_of_does_not_wait_for_a_branch_that_was_not_taken():
    wf = Workflow("inclusive")
    wf.step(start=True, name="begin")(lambda n: n)
    wf.step(after="begin", when=lambda n: n > 5, name="a")(lambda n: "a")
    wf.step(after="a", name="a2")(lambda n: "a2")
    wf.step(after="begin", name="b")(lambda n: "b")
    wf.step(after=all_of("a2", "b"), name="join")(lambda got: got)
    assert finished(await wf.run(1)) == ["b"]
    assert finished(await wf.run(9)) == ["a2", "b"]


async def test_two_joins_that_wait_for_each_other_do_not_hang():
    wf = Workflow("knot", max_steps=20)
    wf.step(start=True, name="begin")(lambda n: n)
    wf.step(after=all_of("begin", "y"), name="x")(lambda got: "x")
    wf.step(after=all_of("begin", "x"), when=lambda got: len(got) < 3, name="y")(lambda got: "y")
    assert "Runaway" in failed(await asyncio.wait_for(wf.run(1), 60))


async def test_any_of_takes_the_first_and_ignores_the_rest():
    wf, calls = Workflow("race"), []
    begin = wf.step(start=True, name="begin")(same)

    @wf.step(after=begin)
    async def slow(n: int) -> str:
        await asyncio.sleep(0.02)
        return "slow"

    @wf.step(after=begin)
    async def fast(n: int) -> str:
        return "fast"

    @wf.step(after=any_of(slow, fast))
    async def first(winner: str) -> str:
        calls.append(winner)
        return winner

    assert finished(await wf.run(1)) == "fast"
    assert calls == ["fast"]


async def test_any_of_inside_a_loop_runs_once_per_round():
    wf, rounds = Workflow("rounds"), []
    begin = wf.step(start=True, after="again", name="begin")(same)
    a = wf.step(after=begin, name="a")(same)

    @wf.step(after=begin)
    async def b(n: int) -> int:
        await asyncio.sleep(0.005)
        return n

    @wf.step(after=any_of(a, b))
    async def first(n: int) -> int:
        rounds.append(n)
        return n

    @wf.step(after=first, when=lambda n: n < 5)
    async def again(n: int) -> int:
        return n + 1

    wf.step(after=first, otherwise=True, name="end")(same)
    assert finished(await wf.run(1)) == 5
    assert rounds == [1, 2, 3, 4, 5]


async def test_n_of_goes_on_with_two_of_three():
    wf = Workflow("quorum")
    begin = wf.step(start=True, name="begin")(same)

    for name, pause in (("a", 0.03), ("b", 0.0), ("c", 0.001)):

        @wf.step(after=begin, name=name)
        async def vote(n: int, name: str = name, pause: float = pause) -> str:
            await asyncio.sleep(pause)
            return name

    wf.step(after=n_of(2, "a", "b", "c"), name="count")(lambda got: got)
    assert finished(await wf.run(1)) == ["b", "c"]


@pytest.mark.parametrize("items", [[], [3], [3, 1, 2], list(range(60))])
async def test_a_map_keeps_item_order_whatever_finishes_first(items: list[int]):
    wf = Workflow("map")
    read = wf.step(start=True, name="read")(same)

    @wf.step(after=each(read))
    async def work(n: int) -> int:
        await asyncio.sleep(0.001 * (n % 3))
        return n * 2

    @wf.step(after=work)
    async def more(n: int) -> int:
        return n + 1

    wf.step(after=gather(more), name="collect")(same)
    assert finished(await wf.run(items)) == [n * 2 + 1 for n in items]


async def test_a_map_with_branches_gathers_what_arrives_from_any_of_them():
    wf = Workflow("branches")
    wf.step(start=True, name="read")(lambda items: items)
    wf.step(after=each("read"), name="look")(lambda n: n)
    wf.step(after="look", when=lambda n: n % 2 == 0, name="even")(lambda n: f"even {n}")
    wf.step(after="look", when=lambda n: n % 3 == 0, name="three")(lambda n: f"three {n}")
    wf.step(after=gather("even", "three"), name="collect")(lambda found: found)
    assert finished(await wf.run([1, 2, 3, 5, 6])) == ["even 2", "three 3", "even 6", "three 6"]
    assert finished(await wf.run([1, 5])) == []


async def test_maps_nest_and_joins_stay_inside_their_item():
    wf = Workflow("nested")
    wf.step(start=True, name="read")(lambda rows: rows)
    wf.step(after=each("read"), name="row")(lambda row: row)
    wf.step(after=each("row"), name="cell")(lambda n: n)
    wf.step(after="cell", name="double")(lambda n: n * 2)
    wf.step(after="cell", name="negate")(lambda n: -n)
    wf.step(after=all_of("double", "negate"), name="pair")(lambda got: got)
    wf.step(after=gather("pair"), name="line")(lambda cells: cells)
    wf.step(after=gather("line"), name="table")(lambda lines: lines)
    expected = [[[2, -1], [4, -2]], [], [[6, -3]]]
    assert finished(await wf.run([[1, 2], [], [3]])) == expected


async def test_a_loop_runs_until_its_condition_ends_it():
    wf = Workflow("loop")

    @wf.step(start=True, after="again")
    async def count(n: int) -> int:
        return n + 1

    wf.step(after=count, when=lambda n: n < 50, name="again")(same)

    @wf.step(after=count, otherwise=True)
    async def end(n: int) -> str:
        return f"{n} rounds"

    assert finished(await wf.run(0)) == "50 rounds"


async def test_a_loop_that_no_one_interrupts_is_stopped_with_its_step_named():
    wf = Workflow("endless", max_steps=30)
    wf.step(start=True, after="loop", name="loop")(lambda n: n)
    assert "'loop': 30 steps" in failed(await wf.run(1))


async def test_the_output_is_what_no_one_took_if_no_end_step_ran():
    wf = Workflow("short")
    wf.step(start=True, name="assess")(lambda n: n)
    wf.step(after="assess", when=lambda n: n > 100, name="review")(lambda n: "reviewed")
    assert finished(await wf.run(5)) == 5


def make_child() -> Workflow:
    child = Workflow("child")
    child.step(start=True, name="inner")(lambda n: n + 1)
    child.step(after="inner", name="last")(lambda n: {"n": n})
    return child


async def test_a_sub_workflow_gives_its_output_to_the_next_step():
    wf = Workflow("parent")
    wf.step(start=True, name="begin")(lambda n: n * 10)
    sub = wf.sub("part", make_child(), after="begin")
    wf.step(after=sub, name="end")(lambda got: got["n"])
    recorder = ListRecorder()
    assert finished(await wf.run(4, storage=recorder)) == 41
    steps = [e.step for c in recorder.commits for e in c.events if e.kind == "step.finished"]
    assert steps == ["begin", "part/inner", "part/last", "end"]


async def test_sub_workflows_run_inside_maps_start_a_run_and_nest():
    outer = Workflow("outer")
    outer.sub("twice", make_child(), start=True)
    outer.step(after="twice", name="unwrap")(lambda got: got["n"])
    wf = Workflow("deep")
    wf.step(start=True, name="read")(lambda items: items)
    sub = wf.sub("work", outer, after=each("read"))
    wf.step(after=gather(sub), name="sum")(sum)
    assert finished(await wf.run([1, 2, 3])) == 9
    assert finished(await outer.run(7)) == 8


async def test_nothing_waits_for_a_slow_sibling():
    wf, seen = Workflow("free"), []
    slow_may_end = asyncio.Event()

    @wf.step(start=True)
    async def slow() -> None:
        await asyncio.wait_for(slow_may_end.wait(), 60)
        seen.append("slow")

    @wf.step(start=True)
    async def fast() -> None:
        seen.append("fast")

    @wf.step(after=fast)
    async def next_one() -> None:
        seen.append("next")
        slow_may_end.set()

    await wf.run(None)
    assert seen == ["fast", "next", "slow"]


async def test_steps_that_end_during_a_commit_share_the_next_one():
    wf = Workflow("shared")
    wf.step(start=True, name="read")(lambda items: items)
    wf.step(after=each("read"), name="work")(same)
    wf.step(after=gather("work"), name="collect")(lambda found: found)
    recorder = ListRecorder(latency=0.01)
    assert finished(await wf.run(list(range(40)), storage=recorder)) == list(range(40))
    assert len(recorder.commits) < 12


async def test_receivers_get_their_own_copy():
    wf = Workflow("copies")
    begin = wf.step(start=True, name="begin")(same)

    @wf.step(after=begin)
    async def spoil(value: dict[str, Any]) -> None:
        value["list"].append("spoilt")

    @wf.step(after=begin)
    async def read(value: dict[str, Any]) -> Any:
        await asyncio.sleep(0.01)
        return value["list"]

    given = {"list": [1]}
    assert finished(await wf.run(given)) == [None, [1]]
    assert given == {"list": [1]}


async def test_a_step_runs_at_most_so_many_at_once():
    wf = Workflow("limit")
    wf.step(start=True, name="read")(lambda items: items)
    busy, most = 0, 0

    @wf.step(after=each("read"), concurrency=3)
    async def work(n: int) -> int:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.001)
        busy -= 1
        return n

    wf.step(after=gather(work), name="collect")(lambda found: found)
    assert finished(await wf.run(list(range(20)))) == list(range(20))
    assert most == 3


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_run_may_begin_in_a_sub_workflow_however_deep(depth):
    async def double(n: Small) -> int:
        return n.n * 2

    wf = flow(double)
    for level in range(depth):
        outer = Workflow(f"level{level}")
        outer.sub("inner", wf, start=True)
        wf = outer
    assert finished(await wf.run({"n": 4})) == 8


@pytest.mark.parametrize(("message", "output"), [(Small(n=1), "small 1"), (Named(name="x"), "named x")])
async def test_a_sub_workflow_that_begins_the_run_is_entered_by_the_start_step_that_takes_the_message(message, output):
    child, wf = Workflow("child"), Workflow("parent")

    @child.step(start=True)
    async def small(one: Small) -> str:
        return f"small {one.n}"

    @child.step(start=True)
    async def named(one: Named) -> str:
        return f"named {one.name}"

    wf.sub("inner", child, start=True)
    assert finished(await wf.run(message)) == output

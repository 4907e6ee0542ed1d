"""Graphs keep what engines promise, also over crashes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import HumanMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START
from langgraph.types import interrupt

from checkpoints.errors import Incompatible
from checkpoints.records import Json
from tests.conformance.worlds import AnyWorld
from tests.engines.langgraph.samples import SAMPLES, chain, noting
from tests.engines.langgraph.test_interrupts import Log, a_map, ask, graph_of, note, subgraph_that_is_left
from wfdash.engines.conformance import (
    CHECKS,
    Check,
    EngineWorld,
    Ledger,
    Sample,
    continues_after_any_crash,
    continues_from_every_checkpoint,
)
from wfdash.engines.langgraph import LangGraphEngine, saver
from wfdash.engines.serving import Served

HOW = ("killed before",)
"""Killed after a commit, a run continues from where it would if killed before the next; the shared checks do it all."""


def subgraph_that_asks(ledger: Ledger) -> Any:
    child = graph_of(("think", note("thought")), ("ask", ask("Sure?"))).compile()
    return graph_of(("plan", child), ("act", note("acted"))).compile()


def subgraph_with_its_own_memory(ledger: Ledger) -> Any:
    child = graph_of(("inner", ask("Inner?"))).compile(checkpointer=True)
    return graph_of(("one", child), ("two", note("two"))).compile()


def subgraph_that_a_node_calls(ledger: Ledger) -> Any:
    child = graph_of(("inner", ask("Inner?"))).compile()

    async def outer(state: Log) -> dict[str, Any]:
        return {"log": (await child.ainvoke({"log": []}))["log"]}

    return graph_of(("outer", outer)).compile()


def two_questions_in_a_node(ledger: Ledger) -> Any:
    def node(state: Log) -> dict[str, Any]:
        return {"log": [interrupt("First?"), interrupt("Second?")]}

    return graph_of(("a", node)).compile()


def questions_beside_steps(ledger: Ledger) -> Any:
    edges = ((START, "a"), (START, "b"), (START, "c"), ("c", "d"))
    nodes = (("a", ask("A?")), ("b", ask("B?")), ("c", note("c")), ("d", note("d")))
    return graph_of(*nodes, edges=edges).compile()


def breakpoints(ledger: Ledger) -> Any:
    nodes = (("a", note("a")), ("b", note("b")), ("c", note("c")))
    return graph_of(*nodes).compile(interrupt_before=["b"], interrupt_after=["b"])


def a_function(ledger: Ledger) -> Any:
    @task
    def fetch(number: int) -> int:
        return number * 2

    @entrypoint()
    def flow(given: dict[str, Any]) -> Any:
        return [fetch(3).result(), interrupt("Which?"), fetch(4).result()]

    return flow


def a_function_of_messages(ledger: Ledger) -> Any:
    @entrypoint()
    def flow(given: dict[str, Any]) -> Any:
        return [HumanMessage(interrupt("What?"), id="1")]

    return flow


KINDS = (
    subgraph_that_asks,
    subgraph_with_its_own_memory,
    subgraph_that_a_node_calls,
    subgraph_that_is_left,
    two_questions_in_a_node,
    a_map,
    questions_beside_steps,
    breakpoints,
    a_function,
    a_function_of_messages,
)


def message(text: str) -> Json:
    return {"log": [text], "items": [1, 2, 3]}


def sample_of(make: Any) -> Sample:
    """Return a kind of graph, with what people answer: a word, or nothing where there is only *Continue*."""
    return Sample(
        make=make,
        message=message,
        width=4,
        reply=lambda request: None if request.answer_schema == {"type": "null"} else "yes",
    )


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
async def test_a_crash_at_any_commit_changes_nothing(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver, "HELD", 0.0)  # Each write in a commit of its own, as on a slow machine.
    sample = sample_of(make)
    whole = await continues_after_any_crash(EngineWorld(LangGraphEngine, SAMPLES), sample, ways=HOW)
    assert whole.record.opened
    assert "yes" in str(whole.output) or make is breakpoints


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
async def test_every_checkpoint_leads_to_the_same_output(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver, "HELD", 0.0)
    run = await continues_from_every_checkpoint(EngineWorld(LangGraphEngine, SAMPLES), sample_of(make))
    assert run.record.opened


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
async def test_a_paused_run_is_continued_under_another_version_of_its_graph(make: Any) -> None:
    world, sample = EngineWorld(LangGraphEngine, SAMPLES), sample_of(make)
    run = await world.begin(sample)
    await run.drive()
    head = await run.head()
    carried = world.engine().carry(world.definition(sample), head, None, override=True)
    assert (carried.body, carried.requests) == (head.body, head.requests)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_langgraph_engine_keeps_its_promises(check: Check, engine_place: AnyWorld):
    await check(EngineWorld(LangGraphEngine, SAMPLES, engine_place, visible_within=5.0, tolerance=0.5))


def test_all_checks_apply_to_it():
    world = EngineWorld(LangGraphEngine, SAMPLES)
    assert {check.__name__: world.lacks(check) for check in CHECKS if world.lacks(check)} == {}


async def test_a_graph_that_lost_the_node_that_comes_next_is_not_continued():
    world = EngineWorld(LangGraphEngine, SAMPLES)
    run = await world.begin(SAMPLES.asks)
    await run.drive()
    engine, head = world.engine(), await run.head()
    other = chain("asking", noting(Ledger(), "before"), noting(Ledger(), "after"))
    with pytest.raises(Incompatible, match="continues at ask, which the graph no longer has"):
        engine.carry(Served(target=other, variable="sample"), head, run.description(), override=True)
    with pytest.raises(Incompatible, match="LangGraph has no migrations"):
        engine.carry(Served(target=other, variable="sample"), head, run.description())

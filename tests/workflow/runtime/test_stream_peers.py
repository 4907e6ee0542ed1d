"""Leaving the loop over a run's events stops the run, as it does in LangGraph and in Agent Framework."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any, Never

import pytest

from tests.workflow.runtime.readers import ENDINGS, leave
from wfdash.workflow import Workflow

pytest.importorskip("langgraph")
pytest.importorskip("agent_framework")

import agent_framework
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

LENGTH = 30
Start = Callable[[Callable[[], None]], AsyncIterator[Any]]


def ours(count: Callable[[], None]) -> AsyncIterator[Any]:
    async def work(n: int) -> int:
        count()
        await asyncio.sleep(0)
        return n + 1

    wf = Workflow("peers")
    step = wf.step(name="s0", start=True)(work)
    for number in range(1, LENGTH):
        step = wf.step(name=f"s{number}", after=step)(work)
    return aiter(wf.run_stream(0))


class State(TypedDict):
    """What LangGraph hands from node to node."""

    n: int


def langgraph(count: Callable[[], None]) -> AsyncIterator[Any]:
    async def work(state: State) -> State:
        count()
        await asyncio.sleep(0)
        return {"n": state["n"] + 1}

    graph = StateGraph(State)
    for number in range(LENGTH):
        graph.add_node(f"s{number}", work)
        graph.add_edge(f"s{number - 1}" if number else START, f"s{number}")
    graph.add_edge(f"s{LENGTH - 1}", END)
    return aiter(graph.compile().astream({"n": 0}, {"recursion_limit": 2 * LENGTH}))


def agentframework(count: Callable[[], None]) -> AsyncIterator[Any]:
    class Work(agent_framework.Executor):
        """One step."""

        @agent_framework.handler
        async def work(self, n: int, ctx: agent_framework.WorkflowContext[int, Never]) -> None:
            count()
            await asyncio.sleep(0)
            await ctx.send_message(n + 1)

    steps = [Work(f"s{number}") for number in range(LENGTH)]
    builder = agent_framework.WorkflowBuilder(start_executor=steps[0])
    for one, after in itertools.pairwise(steps):
        builder.add_edge(one, after)
    return aiter(builder.build().run(0, stream=True))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("start", [ours, langgraph, agentframework])
async def test_no_step_begins_after_the_loop_was_left(start: Start, ending: str):
    begun = 0

    def count() -> None:
        nonlocal begun
        begun += 1

    await leave(ending, start(count))
    left = begun
    for _ in range(500):
        await asyncio.sleep(0)
    assert left < LENGTH
    assert begun <= left + 1


@pytest.mark.parametrize("start", [ours, langgraph, agentframework])
async def test_a_reader_that_does_not_read_on_holds_its_run_back(start: Start):
    begun = 0

    def count() -> None:
        nonlocal begun
        begun += 1

    events = start(count)
    for _ in range(3):
        await anext(events)
    for _ in range(500):
        await asyncio.sleep(0)
    assert begun <= 4
    del events

"""The four steps as a graph of LangGraph."""

from __future__ import annotations

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from tests.faults.crashes.engines import steps


class State(TypedDict, total=False):
    folder: str


async def first(state: State) -> State:
    steps.write_line(state["folder"], "first")
    return {}


async def ask(state: State) -> State:
    interrupt("Go ahead?", response_schema={"type": "boolean"})
    return {}


async def work(state: State) -> State:
    await steps.work(state["folder"])
    return {}


async def last(state: State) -> State:
    steps.write_line(state["folder"], "last")
    return {}


builder = StateGraph(State)
builder.add_sequence([first, ask, work, last])
builder.add_edge(START, "first")
langgraph_steps = builder.compile()

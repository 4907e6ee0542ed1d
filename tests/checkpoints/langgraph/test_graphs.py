"""Graphs of LangGraph, unmodified, on the saver."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from checkpoints.errors import Conflict, InvalidValue
from checkpoints.langgraph import DjangoSaver
from tests.checkpoints.langgraph.own_types import Own
from tests.checkpoints.langgraph.samples import thread


class Draft(TypedDict):
    """What two reviewers decide on."""

    text: str
    verdicts: Annotated[list[str], operator.add]


def reviewed(saver: Any) -> Any:
    """Return a graph that asks two people at once."""

    def ask(who: str) -> Any:
        return lambda state: {"verdicts": [f"{who}: {interrupt({'who': who, 'text': state['text']})}"]}

    graph = StateGraph(Draft)
    for who in ("ana", "ben"):
        graph.add_node(who, ask(who))
        graph.add_edge(START, who)
        graph.add_edge(who, END)
    return graph.compile(checkpointer=saver)


async def test_a_graph_goes_on_in_another_process_with_one_answer_after_the_other(alias: str) -> None:
    config = thread()
    async with DjangoSaver(using=alias) as saver:
        await reviewed(saver).ainvoke({"text": "hello"}, config)
    async with DjangoSaver(using=alias) as saver:
        asked = (await reviewed(saver).aget_state(config)).interrupts
        assert [one.value["who"] for one in asked] == ["ana", "ben"]
        await reviewed(saver).ainvoke(Command(resume={asked[1].id: "yes"}), config)
    async with DjangoSaver(using=alias) as saver:
        graph = reviewed(saver)
        done = await graph.ainvoke(Command(resume={asked[0].id: "no"}), config)
        assert done["verdicts"] == ["ana: no", "ben: yes"]
        history = [state async for state in graph.aget_state_history(config)]
        before = next(state for state in history if state.interrupts)
        changed = await graph.aupdate_state(before.config, {"text": "other"})
        assert (await graph.aget_state(changed)).values["text"] == "other"


def test_a_graph_in_a_thread_keeps_a_conversation(alias: str) -> None:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"You said: {state['messages'][-1].content}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    config = thread()
    with DjangoSaver(using=alias) as saver:
        app = graph.compile(checkpointer=saver)
        for turn in range(3):
            app.invoke({"messages": [HumanMessage(f"turn {turn} " * 200)]}, config)
        saver.prune([config["configurable"]["thread_id"]])
    with DjangoSaver(using=alias) as saver:
        messages = graph.compile(checkpointer=saver).get_state(config).values["messages"]
        assert [message.type for message in messages] == ["human", "ai"] * 3


def merged(state: list[int], changes: list[list[int]]) -> list[int]:
    """Return the state with all changes, in the order of the tasks."""
    return [*(state or []), *(one for change in changes for one in change)]


class Log(TypedDict):
    """A channel that stores changes."""

    n: int
    log: Annotated[list[int], DeltaChannel(merged, snapshot_frequency=5)]


def counting(saver: Any) -> Any:
    """Return a graph that counts to 12, and writes twice in each step."""

    def both(state: Log) -> dict[str, Any]:
        return {"n": state["n"] + 1, "log": [state["n"] * 10]}

    def other(state: Log) -> dict[str, Any]:
        return {"log": [state["n"] * 10 + 1]}

    graph = StateGraph(Log)
    graph.add_node("both", both)
    graph.add_node("other", other)
    graph.add_edge(START, "both")
    graph.add_edge(START, "other")
    graph.add_conditional_edges("both", lambda state: ["both", "other"] if state["n"] < 12 else [END])
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_channel_that_stores_changes_keeps_its_value(alias: str, durability: Any) -> None:
    config, copy = thread(), thread()
    async with DjangoSaver(using=alias) as saver:
        done = await counting(saver).ainvoke({"n": 0, "log": []}, config, durability=durability)
        assert len(done["log"]) == 24
        name, copied = config["configurable"]["thread_id"], copy["configurable"]["thread_id"]
        before = len([one async for one in saver.alist(config)])
        await saver.acopy_thread(name, copied)
        await saver.aprune([name])
        assert len([one async for one in saver.alist(config)]) < max(before, 2)
    async with DjangoSaver(using=alias) as saver:
        for one in (config, copy):
            assert (await counting(saver).aget_state(one)).values["log"] == done["log"]
            # The suite's walk over whole checkpoints says the same as the short way.
            latest = (await saver.aget_tuple(one)).config  # type: ignore[union-attr]
            short = await saver.aget_delta_channel_history(config=latest, channels=["log"])
            walk = await super(DjangoSaver, saver).aget_delta_channel_history(config=latest, channels=["log"])
            assert short == walk
            assert await asyncio.to_thread(saver.get_delta_channel_history, config=one, channels=["log"]) == walk
        again = await counting(saver).ainvoke({"n": 11}, config)
        assert again["log"][:24] == done["log"]


async def test_a_run_whose_changes_are_needed_is_not_deleted(alias: str) -> None:
    config = thread()
    async with DjangoSaver(using=alias) as saver:
        graph = counting(saver)
        await graph.ainvoke({"n": 10, "log": []}, {**config, "metadata": {"run_id": "first"}})
        await graph.ainvoke({"n": 11, "log": []}, {**config, "metadata": {"run_id": "second"}})
        value = (await graph.aget_state(config)).values["log"]
        with pytest.raises(Conflict, match="DeltaChannel: nothing was removed"):
            await saver.adelete_for_runs(["first"])
        assert (await graph.aget_state(config)).values["log"] == value
        await saver.adelete_for_runs(["first", "second"])
        assert await saver.aget_tuple(config) is None


class Bill(TypedDict, total=False):
    """A state with a class of its own."""

    own: Own
    verdict: str


def billing(saver: Any) -> Any:
    """Return a graph that keeps an object while it asks, and uses it afterwards."""
    graph = StateGraph(Bill)
    graph.add_node("read", lambda bill: {"own": Own(7)})
    graph.add_node("ask", lambda bill: {"verdict": f"{interrupt('Pay?')} {bill['own'].n}"})
    graph.add_edge(START, "read")
    graph.add_edge("read", "ask")
    return graph.compile(checkpointer=saver)


def test_a_graph_with_a_class_that_is_not_allowed_fails_before_it_asks(alias: str) -> None:
    config = thread()
    with DjangoSaver(using=alias) as saver, pytest.raises(InvalidValue, match=r"channel 'own': .*allow=\[Own\]"):
        billing(saver).invoke({}, config)
    with DjangoSaver(using=alias, allow=[Own]) as saver:
        assert billing(saver).invoke(None, config)["__interrupt__"][0].value == "Pay?"
    with DjangoSaver(using=alias, allow=[Own]) as saver:
        assert billing(saver).invoke(Command(resume="yes"), config)["verdict"] == "yes 7"


async def test_a_graph_in_an_event_loop_fails_likewise(alias: str) -> None:
    async with DjangoSaver(using=alias) as saver:
        with pytest.raises(InvalidValue, match=r"channel 'own': .*allow=\[Own\]"):
            await billing(saver).ainvoke({}, thread())

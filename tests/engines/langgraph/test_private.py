"""Every name of LangGraph that the engine uses and LangGraph does not promise: it is there, does what is expected, and
without it runs continue.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph")

from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt, interrupt
from typing_extensions import TypedDict

from checkpoints.langgraph.serializer import SAFE_TYPES
from tests.engines.langgraph.rides import Ride, asked, output
from wfdash.engines.langgraph import private, questions


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def ask(state: State) -> dict[str, Any]:
    return {"log": [interrupt("First?"), interrupt("Second?")]}


def graph() -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    return builder.compile(checkpointer=InMemorySaver())


def test_a_graph_refuses_an_answer_to_a_question_that_is_not_asked():
    config: Any = {"configurable": {"thread_id": "t", private.STRICT_RESUME: True}}
    found = graph()
    found.invoke({}, config)
    with pytest.raises(Exception, match="already-consumed interrupt"):
        found.invoke(Command(resume={"0" * 32: 1}), config)


async def test_without_strict_resumes_answers_arrive(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("wfdash.engines.langgraph.drive.STRICT_RESUME", "a key that means nothing")
    await answers_twice()


async def answers_twice() -> None:
    ride = Ride(graph())
    assert asked(await ride.start({})) == ["First?"]
    assert asked(await ride.answer(1)) == ["Second?"]
    assert output(await ride.answer(2))["log"] == [1, 2]


async def test_a_graph_can_be_copied_with_another_saver_and_without_the_method(monkeypatch: pytest.MonkeyPatch):
    found = graph()
    assert private.with_saver(found, None).checkpointer is None
    assert found.checkpointer is not None

    def gone(self: Any, update: Any = None) -> Any:
        raise AttributeError("copy")

    monkeypatch.setattr(Pregel, "copy", gone)
    await answers_twice()
    assert found.checkpointer is not None


class Deltas(TypedDict, total=False):
    log: Annotated[list[str], DeltaChannel(lambda value, writes: [*value, *(item for one in writes for item in one)])]
    n: int


def write(state: Any) -> dict[str, Any]:
    return {"log": ["written"]}


def pause(state: Any) -> dict[str, Any]:
    return {"log": [str(interrupt("?"))]}


def deltas() -> Any:
    builder = StateGraph(Deltas)
    builder.add_sequence([write, pause])
    builder.add_edge(START, "write")
    return builder.compile()


def test_a_delta_channel_has_a_frequency_which_the_copy_sets():
    found = deltas()
    assert private.with_saver(found, None).channels["log"].snapshot_frequency == 1
    assert found.channels["log"].snapshot_frequency > 1


async def test_without_the_frequency_what_was_written_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(private, "_snapshotting", dict)
    ride = Ride(deltas())
    await ride.start({"log": ["in"]})
    assert "delta||||log" in ride.checkpoint.body["position"]
    assert output(await ride.answer("yes"))["log"] == ["in", "written", "yes"]


async def test_questions_of_one_node_with_one_id_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    assert private.DISTINCT_IDS
    monkeypatch.setattr(questions, "DISTINCT_IDS", False)
    await answers_twice()


def test_the_types_that_langgraph_calls_safe_are_known():
    assert ("langchain_core.messages.ai", "AIMessage") in SAFE_TYPES
    assert (Interrupt.__module__, "Interrupt") in SAFE_TYPES
    assert private.delta_value(private._DeltaSnapshot([1])) == [1]
    assert not private.is_invalid_resume(ValueError())

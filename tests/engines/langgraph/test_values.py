"""What is stored of a graph: values of any type come back, nothing but data is made of them; edits of them."""

from __future__ import annotations

import operator
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from checkpoints.errors import Damaged
from checkpoints.records import Answer
from tests.engines.langgraph.rides import Ride, error, output
from tests.workflow.world import failed
from wfdash.contract import Edits, InvalidInput
from wfdash.engines.langgraph.thread import FORMAT, Thread
from wfdash.engines.langgraph.values import decode, encode, may_load
from wfdash.values.errors import NotStorable


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int


@dataclass
class Line:
    start: Point


class Order(BaseModel):
    number: int


class Tool:
    """Not data."""


VALUES = [
    *(None, True, 0, -1.5, "", "ü", [], {}, {"a": [1, {"b": None}]}, 2**80, "a\x00b", float("inf"), 1 + 10**30),
    *({3, 4}, deque([1]), b"bytes", {1: "int key"}, Decimal("1.10"), UUID(int=7), datetime(2026, 1, 2, tzinfo=UTC)),
    *(Colour.RED, Point(3), Line(Point(4)), Order(number=5), [Order(number=6)], Send("a", {"b": 1})),
    *(HumanMessage("hi", id="1"), [AIMessage("", id="2", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c"}])]),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_value_comes_back_as_it_was(value: Any):
    stored, _ = encode(value, "channel 'x'")
    found = decode(stored)
    assert found == value
    assert type(found) is type(value)
    assert found is not value or value is None or isinstance(value, (bool, int, str, float, Enum))


@pytest.mark.parametrize(
    "value", [Tool(), lambda: None, [Tool()], Line(Tool())], ids=["object", "function", "list", "inner"]
)
def test_what_is_no_data_is_refused_with_its_place(value: Any):
    with pytest.raises(NotStorable, match="channel 'x'"):
        encode(value, "channel 'x'")


def test_a_class_inside_of_a_function_is_refused_with_a_remedy():
    @dataclass
    class Local:
        a: int

    with pytest.raises(NotStorable, match="at the top of their module"):
        encode(Local(1), "channel 'x'")


def test_nothing_is_called_or_imported_because_a_checkpoint_says_so():
    assert not may_load("os", "system")
    assert not may_load("antigravity", "Anything")
    assert not may_load("builtins", "eval")
    assert not may_load(__name__, "Tool")
    assert may_load(__name__, "Order")
    for text in ("pickle:gASVAA==", "msgpack:!!", "text", "json:e30=", 3, {"other": 1}):
        with pytest.raises(Damaged):
            decode(text)
    with pytest.raises(Damaged):
        Thread.of({"position": {"format": FORMAT}, "state": "text"})


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    order: Order
    when: datetime
    cold: Any


def graph_of(*nodes: Any, state: Any = State) -> Any:
    builder = StateGraph(state)
    builder.add_sequence(list(nodes))
    builder.add_edge(START, nodes[0].__name__)
    return builder.compile()


async def test_typed_values_survive_a_pause_and_a_restart():
    def make(state: State) -> Any:
        return {"order": Order(number=state["when"].year)}

    def ask(state: State) -> Any:
        return {"log": [f"{interrupt('?')} {type(state['order']).__name__} {state['order'].number}"]}

    ride = Ride(graph_of(make, ask))
    await ride.start({"when": "2026-01-02T03:04:05Z"})
    assert ride.engine.show(ride.checkpoint).state == {"when": "2026-01-02T03:04:05Z", "order": {"number": 2026}}
    assert output(await ride.answer("yes"))["log"] == ["yes Order 2026"]


async def test_a_value_that_cannot_be_stored_fails_the_step_and_names_the_channel():
    def make(state: State) -> Any:
        return {"cold": Tool()}

    found = failed(await Ride(graph_of(make)).start({}))
    assert "'cold'" in found
    assert "NotStorable" in found


def together(value: list[str], writes: Any) -> list[str]:
    return [*value, *(item for one in writes for item in one)]


class Deltas(TypedDict, total=False):
    log: Annotated[list[str], DeltaChannel(together)]
    n: int


async def test_a_channel_that_stores_only_what_was_written_keeps_its_value():
    def first(state: Any) -> Any:
        return {"log": ["first"]}

    def second(state: Any) -> Any:
        return {"n": 1}

    def third(state: Any) -> Any:
        return {"log": [str(interrupt("?"))]}

    alone = Ride(graph_of(first, second, third, state=Deltas))
    child = graph_of(first, second, third, state=Deltas)

    async def calls(state: Any) -> Any:
        return {"log": (await child.ainvoke({"log": ["in"]}))["log"]}

    nested, called = Ride(graph_around(child, Deltas)), Ride(graph_of(calls, state=Deltas))
    for ride, message, expected in (
        (alone, {"log": ["in"]}, ["in", "first", "yes"]),
        (called, {}, ["in", "first", "yes"]),
        (nested, {"log": ["in"]}, ["in", "in", "first", "yes"]),
    ):
        await ride.start(message)
        assert output(await ride.answer("yes"))["log"] == expected


def graph_around(child: Any, state: Any) -> Any:
    builder = StateGraph(state)
    builder.add_node("child", child)
    builder.add_edge(START, "child")
    return builder.compile()


async def test_an_unchanged_value_is_the_same_object_in_each_checkpoint():
    def one(state: State) -> Any:
        return {"log": ["one"]}

    def two(state: State) -> Any:
        return {"log": ["two"]}

    kept: list[Any] = []
    ride = Ride(graph_of(one, two))
    commit = ride.recorder.commit

    async def watched(given: Any) -> None:
        if given.checkpoint is not None:  # On a busy machine the start of a step is committed on its own.
            kept.append(given.checkpoint.body["state"]["cold"])
            assert given.frozen
        await commit(given)

    ride.recorder.commit = watched  # type: ignore[method-assign]
    await ride.start({"cold": {"big": ["x"] * 100}})
    assert len(kept) > 2
    assert all(one is kept[0] for one in kept)


# -- edits


def ask(state: State) -> Any:
    return {"log": [f"{interrupt('?')} {state['order'].number} {state['log']}"]}


async def test_an_edit_replaces_values_and_no_reducer_sees_them():
    ride = Ride(graph_of(ask))
    await ride.start({"log": ["a"], "order": {"number": 1}})
    edits = Edits(state={"log": ["z"], "order": {"number": 9}})
    edited = ride.engine.edit(ride.served, ride.checkpoint, edits)
    assert edited.words == ("state changed: log, order",)
    at = ride.checkpoint.model_copy(update={"body": edited.body})
    (key,) = (request.key for request in edited.requests)
    assert output(await ride.resume({key: Answer(key=key, value="yes")}, at=at))["log"] == ["z", "yes 9 ['z']"]


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"log": "z"}, ["state", "log"]),
        ({"order": {}}, ["state", "order", "number"]),
        ({"other": 1}, ["state", "other"]),
    ],
)
async def test_a_wrong_edit_is_refused_with_its_field(state: Any, place: list[str]):
    ride = Ride(graph_of(ask))
    await ride.start({"log": ["a"], "order": {"number": 1}})
    with pytest.raises(InvalidInput) as caught:
        ride.engine.edit(ride.served, ride.checkpoint, Edits(state=state))
    assert [one["loc"] for one in caught.value.errors] == [place]


async def test_a_failing_node_is_named():
    def fails(state: State) -> Any:
        raise ValueError("no such order")

    assert error(await Ride(graph_of(fails)).start({})) == "fails: ValueError: no such order"


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (ValueError("half \ud800 " + "x" * 1_000_000), "fails: ValueError: half \\ud800 xxx"),
        (Wordless(), "fails: Wordless: "),
    ],
)
async def test_the_words_of_an_error_are_cut_and_can_be_stored(problem: Exception, said: str):
    def fails(state: State) -> Any:
        raise problem

    ride = Ride(graph_of(fails))
    assert error(await ride.start({})).startswith(said)
    assert sum(len(commit.model_dump_json()) for commit in ride.recorder.commits) < 500_000


async def test_a_value_nested_too_deep_is_named():
    def nests(state: State) -> Any:
        value: Any = 1
        for _ in range(900):
            value = [value]
        return {"cold": value}

    assert "nested too deep" in error(await Ride(graph_of(nests)).start({}))

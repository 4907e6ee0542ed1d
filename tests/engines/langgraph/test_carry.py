"""Which changes of a graph a waiting run outlives by itself, and which it waits with for a person."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph")

from django.test import Client
from django.urls import reverse
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt
from typing_extensions import TypedDict

from checkpoints.errors import Incompatible
from checkpoints.models import Event, WorkflowVersion
from checkpoints.records import Answer
from tests.driving import drive, pending
from tests.engines.langgraph.rides import Ride, output
from tests.people import viewer
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.contract import Carried, Description


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class More(State, total=False):
    extra: str


class Retyped(TypedDict, total=False):
    log: list[str]


def noting(name: str) -> Any:
    return lambda state: {"log": [name]}


def ask(state: Any) -> dict[str, Any]:
    return {"log": [interrupt("Sure?")]}


def asking(*edges: str, state: Any = State, join: tuple[list[str], str] | None = None, **nodes: Any) -> Any:
    """Return a graph of edges like ``first>ask``; a node that asks is called so, any other one notes its name."""
    builder = StateGraph(state)
    pairs = [edge.split(">") for edge in edges]
    for name in dict.fromkeys(name for pair in pairs for name in pair if name):
        builder.add_node(name, nodes.get(name) or (ask if name.startswith("ask") else noting(name)))
    for left, right in pairs:
        builder.add_edge(left or START, right)
    if join:
        builder.add_node(join[1], noting(join[1]))
        builder.add_edge(*join)
    return builder.compile(name="asking")


OLD = (">first", "first>ask", "ask>last")


async def waiting(graph: Any) -> tuple[Ride, Description]:
    ride = Ride(graph)
    await ride.start({"log": []})
    return ride, ride.engine.describe(ride.served)


def carried(ride: Ride, old: Description | None, graph: Any, *, override: bool = False) -> Carried:
    new = Ride(graph)
    return new.engine.carry(new.served, ride.checkpoint, old, override=override)


async def goes_on(ride: Ride, found: Carried, graph: Any) -> list[str]:
    """Return the log of a run whose questions are answered under the new graph."""
    at = ride.checkpoint.model_copy(update={"body": found.body, "requests": found.requests})
    answers = {request.key: Answer(key=request.key, value="yes") for request in at.requests}
    done: list[str] = output(await Ride(graph).resume(answers, at))["log"]
    return done


@pytest.mark.parametrize(
    ("graph", "words", "log"),
    [
        (asking(*OLD, state=More), ("the state has also extra",), ["first", "yes", "last"]),
        (asking(*OLD, "last>after"), ("added: after",), ["first", "yes", "last", "after"]),
        (
            asking(">first", "first>ask", "ask>check", "check>last"),
            ("added: check", "last comes after check, after ask before"),
            ["first", "yes", "check", "last"],
        ),
        (
            asking(">ask", "ask>last"),
            ("removed: first", "ask comes first, after first before"),
            ["first", "yes", "last"],
        ),
        (asking(">first", "first>ask"), ("removed: last",), ["first", "yes"]),
        (asking(*OLD, "first>beside", "beside>ask"), None, ["first", "yes", "last"]),
    ],
)
async def test_a_waiting_run_goes_on_by_itself_in_a_graph_that_has_more_or_less_around_it(
    graph: Any, words: tuple[str, ...] | None, log: list[str]
):
    ride, old = await waiting(asking(*OLD))
    found = carried(ride, old, graph)
    assert found.how == "added"
    assert words is None or found.words == words
    assert await goes_on(ride, found, graph) == log


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (asking(*OLD, state=Retyped), "log of the state is kept as LastValue, as BinaryOperatorAggregate before"),
        (asking(">first", "first>ask", "first>last"), "last comes after first, after ask before"),
        (asking(*OLD, "first>last"), "last comes after ask, first, after ask before"),
        (asking(*OLD, join=(["first", "ask"], "both")), "added: both"),
        (asking(">first", "first>other", "other>last"), "removed: ask"),
    ],
)
async def test_any_other_change_is_said_and_left_to_an_operator(graph: Any, words: str):
    ride, old = await waiting(asking(*OLD))
    with pytest.raises(Incompatible, match=f"{words}.*LangGraph has no migrations"):
        carried(ride, old, graph)


async def test_a_value_that_has_no_place_any_more_is_not_lost_in_silence():
    ride, old = await waiting(asking(*OLD, state=More))
    with pytest.raises(Incompatible, match="the state no longer has extra"):
        carried(ride, old, asking(*OLD))
    assert carried(ride, old, asking(*OLD), override=True).how == "override"


async def test_a_graph_whose_channels_were_not_noted_is_as_it_was_before():
    ride, old = await waiting(asking(*OLD))
    for unknown in (None, old.model_copy(update={"channels": ()})):
        with pytest.raises(Incompatible, match="LangGraph has no migrations"):
            carried(ride, unknown, asking(*OLD, state=More))


async def test_the_version_is_what_earlier_releases_made_of_the_same_graph():
    graph = asking(">plan", "plan>last", plan=asking(">deep"))
    levels = {"": graph, "plan": dict(graph.get_subgraphs())["plan"]}
    channels = {
        path: sorted(f"{name} {type(one).__name__}" for name, one in level.channels.items())
        for path, level in levels.items()
    }
    content = [["last", "plan/deep"], [["plan/deep", "last", "plain"]], channels]
    former = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    ride = Ride(graph)
    assert ride.engine.describe(ride.served).version == former


async def test_a_node_that_a_finished_neighbour_leads_to_is_one_that_comes_next():
    parallel = (">left", ">ask", "left>then", "ask>last")
    ride, old = await waiting(asking(*parallel))
    assert [request.step for request in ride.checkpoint.requests] == ["ask"]
    without = asking(">left", ">ask", "ask>last")
    with pytest.raises(Incompatible, match="LangGraph has no migrations"):
        carried(ride, old, without)
    with pytest.raises(Incompatible, match="continues at then, which the graph no longer has"):
        carried(ride, old, without, override=True)
    longer = asking(*parallel, "then>more")
    assert sorted(await goes_on(ride, carried(ride, old, longer), longer)) == ["last", "left", "more", "then", "yes"]


def sending(target: str) -> Any:
    builder = StateGraph(State)
    builder.add_node("plan", noting("plan"))
    builder.add_node("ask", ask)
    builder.add_node(target, lambda state: {"log": [state["item"]]})
    builder.add_edge(START, "plan")
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("plan", lambda state: [Send(target, {"item": "a"})], [target])
    return builder.compile(name="asking")


async def test_a_node_that_was_sent_a_message_is_one_that_comes_next():
    ride, old = await waiting(sending("item"))
    with pytest.raises(Incompatible, match="continues at item, which the graph no longer has"):
        carried(ride, old, sending("other"), override=True)
    assert sorted(await goes_on(ride, carried(ride, old, sending("item")), sending("item"))) == ["a", "plan", "yes"]


async def test_a_graph_inside_of_a_graph_may_gain_as_much():
    inside, more = asking(">deep", "deep>ask"), asking(">deep", "deep>ask", "ask>after", state=More)
    ride, old = await waiting(asking(">plan", "plan>last", plan=inside))
    longer = asking(">plan", "plan>last", plan=more)
    found = carried(ride, old, longer)
    assert found.words == (
        "added: plan/after",
        "last comes after plan/after, after plan/ask before",
        "the state has also plan/extra",
    )
    assert (await goes_on(ride, found, longer)).count("after") == 1


SERVED = """
from tests.engines.langgraph.test_carry import OLD, More, State, asking

asking = asking(*OLD, state=STATE)
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("was_stored", [True, False])
def test_the_dashboard_continues_a_run_of_a_graph_that_gained_a_value(serve: Callable[[str], None], was_stored: bool):
    serve(SERVED.replace("STATE", "State"))
    run = start_run(viewer("otto"), "asking", {"log": []})
    assert drive(run) == "waiting"
    row = WorkflowVersion.objects.get(workflow="asking")
    if not was_stored:
        # As an earlier release stored it; the next start adds what it did not say.
        WorkflowVersion.objects.filter(pk=row.pk).update(description={**row.description, "channels": []})
        start_run(viewer("otto"), "asking", {"log": []})
    (request,) = pending(run).values()
    serve(SERVED.replace("STATE", "More"))
    browser = Client()
    browser.force_login(viewer("otto").user)
    page = browser.get(reverse("wfdash:run-migrate", args=[run.pk])).content.decode()
    assert "The run keeps its position and state: the change does not touch it." in " ".join(page.split())
    assert "the state has also extra" in page
    answer_request(viewer("ana"), request.pk, "quite")
    assert drive(run) == "completed"
    migrated = Event.objects.get(run=run, kind="run.migrated")
    assert (migrated.data["how"], migrated.data["words"]) == ("added", ["the state has also extra"])

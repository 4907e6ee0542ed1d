"""Which objects are served as graphs, how they are described, and how runs of an older graph go on."""

from __future__ import annotations

import hashlib
import json
import operator
import sqlite3
import subprocess
import sys
import textwrap
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from django.test import Client
from django.urls import reverse

pytest.importorskip("langgraph")

from langchain_core.messages import AnyMessage
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Send, interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from checkpoints.errors import Incompatible
from checkpoints.models import Event, WorkflowVersion
from checkpoints.records import Answer
from tests.driving import drive, pending
from tests.engines.langgraph.rides import Ride, output
from tests.people import viewer
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.contract import Carried, Description, InvalidInput
from wfdash.engines import catalog, langgraph, serve
from wfdash.engines.langgraph import LangGraphEngine
from wfdash.engines.serving import Served
from wfdash.installation import workflow_sources


class Old(typing.TypedDict, total=False):
    topic: typing.Required[str]
    inner: Inner
    messages: Annotated[list[AnyMessage], add_messages]


class Inner(typing.TypedDict):
    number: int


class Model(BaseModel):
    amount: int = Field(ge=1)
    note: str = ""


@dataclass
class Data:
    amount: int
    tags: list[str] = field(default_factory=list)


@dataclass
class Defaults:
    tags: list[str] = field(default_factory=list)


def nothing(state: Any) -> dict[str, Any]:
    """Do nothing.

    At length.
    """
    return {}


def graph(state: Any, **options: Any) -> Any:
    builder = StateGraph(state, **options)
    builder.add_node("only_step", nothing)
    builder.add_edge(START, "only_step")
    return builder.compile()


def described(target: Any, **served: Any) -> Description:
    return LangGraphEngine().describe(Served(target=target, variable="flow", **served))


def test_a_typed_dict_of_the_standard_library_is_a_form_on_every_python():
    schema = described(graph(Old)).input_schema
    assert schema["properties"]["topic"]["type"] == "string"
    assert schema["properties"]["messages"]["anyOf"][0]["type"] == "string"
    assert "number" in str(schema["properties"]["inner"])
    assert "required" not in schema


def test_a_type_of_the_input_says_which_fields_are_needed():
    assert described(graph(Old, input_schema=Inner)).input_schema["required"] == ["number"]
    assert described(graph(Model)).input_schema["required"] == ["amount"]
    assert described(graph(Data)).input_schema["required"] == ["amount"]
    assert described(graph(Old), input=Model).input_schema["required"] == ["amount"]
    assert described(graph(Old), input={"type": "string"}).input_schema == {"type": "string"}


@pytest.mark.parametrize("state", [Model, Data])
async def test_wrong_input_is_refused_at_its_field(state: Any):
    ride = Ride(graph(state))
    with pytest.raises(InvalidInput) as caught:
        ride.engine.check_input(ride.served, {"amount": "many"})
    assert [one["loc"] for one in caught.value.errors] == [["amount"]]
    assert output(await ride.start({"amount": 3}))["amount"] == 3


def test_names_titles_and_steps_come_from_the_graph():
    found = described(graph(Old))
    assert (found.workflow, found.title) == ("flow", "Flow")
    (step,) = found.steps
    assert (step.name, step.title, step.doc, step.person) == ("only_step", "Only step", "Do nothing.", False)
    assert described(graph(Old), name="other", title="An other").title == "An other"


def asks(state: Any) -> dict[str, Any]:
    return {"topic": interrupt("?")}


def test_a_node_that_is_a_graph_shows_its_nodes_with_their_edges():
    child = StateGraph(Old)
    child.add_node("think", nothing)
    child.add_node("ask", asks)
    child.add_edge(START, "think")
    child.add_conditional_edges("think", lambda state: END, {"yes": "ask", END: END})
    builder = StateGraph(Old)
    builder.add_node("before", nothing)
    builder.add_node("plan", child.compile())
    builder.add_node("act", nothing)
    builder.add_edge(START, "before")
    builder.add_edge("before", "plan")
    builder.add_edge("plan", "act")
    found = described(builder.compile(interrupt_before=["act"]))
    assert {(one.name, one.parent, one.person) for one in found.steps} == {
        ("before", None, False),
        ("plan/think", "plan", False),
        ("plan/ask", "plan", True),
        ("act", None, True),
    }
    assert {(one.source, one.target, one.kind, one.label) for one in found.edges} == {
        ("before", "plan/think", "plain", ""),
        ("plan/think", "plan/ask", "case", "yes"),
        ("plan/think", "act", "plain", ""),
        ("plan/ask", "act", "plain", ""),
    }


def test_the_version_follows_nodes_edges_and_channels_and_nothing_else():
    same, other = graph(Old), graph(Inner)
    assert described(graph(Old)).version == described(same, title="Another").version
    assert described(other).version != described(same).version


@dataclass
class Handles:
    database: sqlite3.Connection


class Terms(typing.TypedDict, total=False):
    region: typing.Required[str]
    limit: int


def test_a_graph_whose_context_no_one_can_give_says_so():
    with_context = graph(Old, context_schema=Handles)
    assert described(with_context).doc.startswith(
        "**`runtime.context` is None in every node.** The graph expects a Handles"
    )
    assert described(with_context, doc="Does it.").doc.startswith("Does it.\n\n**`runtime.context`")
    assert described(with_context, context={"amount": 1}).doc == ""
    assert described(graph(Old, context_schema=Defaults)).doc == ""
    assert described(graph(Old, context_schema=Data)).doc == ""


@pytest.mark.parametrize(("kind", "field"), [(Data, "amount"), (Model, "amount"), (Terms, "region")])
def test_the_input_asks_for_the_context_of_a_graph(kind: type, field: str):
    schema = described(graph(Old, context_schema=kind)).input_schema
    assert schema["required"] == ["context"]
    assert schema["properties"]["context"].items() >= {"title": "Context", "required": [field]}.items()
    assert "required" not in described(graph(Old, context_schema=Defaults)).input_schema
    served = described(graph(Old, context_schema=kind), context={"amount": 1})
    assert "context" not in served.input_schema["properties"]


def asks_for_amount(state: Any) -> dict[str, Any]:
    return {"topic": interrupt("?", response_schema=Data)}


def asks_agent_inbox(state: Any) -> dict[str, Any]:
    return {"topic": interrupt([{"action_request": {"action": "mail", "args": {}}, "config": {}}])}


def test_a_graph_says_which_of_its_questions_may_be_answered_with_anything():
    builder = StateGraph(Old)
    for node in (asks, asks_for_amount, asks_agent_inbox, nothing):
        builder.add_node(node).add_edge(START, node.__name__)
    flow = builder.compile(name="flow")
    assert described(flow, doc="Does it.").doc.startswith("Does it.\n\n**People may answer `asks` with anything**")
    assert described(flow, doc="Does it.", answers={"asks": str}).doc == "Does it."


def test_only_graphs_are_accepted():
    engine = LangGraphEngine()
    assert engine.accepts(StateGraph(Old))
    assert engine.accepts(graph(Old))
    assert engine.accepts(entrypoint()(nothing))
    assert not any(engine.accepts(one) for one in (None, Old, nothing, engine, StateGraph, "graph"))


async def test_a_factory_makes_a_graph_for_each_run():
    made = []

    def make() -> Any:
        made.append(1)
        return graph(Old)

    engine, served = LangGraphEngine(), Served(target=make, variable="flow", factory=True)
    engine.describe(served)
    before = len(made)
    for _ in range(2):
        ride = Ride(served)
        await ride.start({"topic": "x"})
    assert len(made) >= before + 2


# -- in a catalogue


def load(tmp_path: Path, text: str) -> catalog.Catalog:
    file = tmp_path / f"graphs_{abs(hash(text))}.py"
    file.write_text(textwrap.dedent(text))
    return catalog.read([str(file)])


def test_the_code_of_an_agent_is_its_author_s_and_not_that_of_libraries(tmp_path: Path):
    pytest.importorskip("langchain")
    found = load(
        tmp_path,
        """
        from langchain.agents import create_agent
        from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
        from wfdash.examples.langgraph_model import ScriptedChatModel

        class Greet(AgentMiddleware):
            def before_model(self, state, runtime):
                return None

        asks = HumanInTheLoopMiddleware(interrupt_on={"send": True})
        agent = create_agent(ScriptedChatModel(replies=[]), [], middleware=[asks, Greet()])
        """,
    )
    assert found.failures == []
    code = found.entries["agent"].code
    assert [(file.path.parent, list(file.steps)) for file in code] == [(tmp_path, ["Greet.before_model"])]


BOTH = """
    from typing_extensions import TypedDict
    from langgraph.graph import START, StateGraph

    class State(TypedDict, total=False):
        a: int

    def node(state):
        return {}

    def make(name="node"):
        builder = StateGraph(State)
        builder.add_node(name, node)
        builder.add_edge(START, name)
        return builder

    builder = make()
    first = builder.compile()
    child = make().compile()
    parent = StateGraph(State)
    parent.add_node("child", child)
    parent.add_edge(START, "child")
    second = parent.compile()
"""


def test_unnamed_graphs_are_called_as_their_variables_and_parts_are_not_served(tmp_path: Path):
    found = load(tmp_path, BOTH)
    assert found.failures == []
    assert list(found.entries) == ["first", "second"]


def test_a_graph_that_is_not_valid_is_a_line_in_the_catalogue(tmp_path: Path):
    text = BOTH + "\n    broken = StateGraph(State)\n    broken.add_node('a', node)\n"
    found = load(tmp_path, text)
    assert list(found.entries) == ["first", "second"]
    assert len(found.failures) == 1
    assert "entrypoint" in found.failures[0].error


def test_another_version_of_langgraph_is_a_line_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workflow_sources, "version", lambda package: "1.0.3")
    (failure, *_) = load(tmp_path, BOTH).failures
    assert 'langgraph 1.0.3 is installed, and 1.2.12 or newer, below 2, is needed: pip install "wfdash[langgraph]"' in (
        failure.error
    )


def test_the_engine_imports_nothing_of_langgraph_before_a_graph_is_there():
    code = (
        "import sys; from wfdash.engines.langgraph import LangGraphEngine; e = LangGraphEngine();"
        "e.accepts(object()); print([m for m in sys.modules if m.split('.')[0] in ('langgraph', 'langchain_core')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
    assert list(langgraph.PLACES)


def test_serve_names_a_graph_and_says_whom_it_asks():
    served = serve(graph(Old), name="named", by="ops", secrets=["topic"])
    engine = LangGraphEngine()
    assert engine.describe(served).workflow == "named"
    assert engine.secret_names(served) == {"topic"}
    assert engine.code_places(served)[0][0] == "only_step"


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
from tests.engines.langgraph.test_definitions import OLD, More, State, asking

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

"""Which objects are served as graphs, under which names, and how they are described; what cannot be served says why."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AnyMessage
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import interrupt
from pydantic import BaseModel, Field

from tests.engines.langgraph.rides import Ride, output
from wfdash.contract import Description, InvalidInput
from wfdash.engines import catalog, serve
from wfdash.engines.langgraph import LangGraphEngine, detection
from wfdash.engines.serving import Served
from wfdash.installation import frameworks


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
    builder = StateGraph(Old)
    assert engine.accepts(builder)
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
    monkeypatch.setattr(frameworks, "version", lambda package: "1.0.3")
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
    assert list(detection.PLACES)


def test_serve_names_a_graph_and_says_whom_it_asks():
    served = serve(graph(Old), name="named", by="ops", secrets=["topic"])
    engine = LangGraphEngine()
    assert engine.describe(served).workflow == "named"
    assert engine.secret_names(served) == {"topic"}
    assert engine.code_places(served)[0][0] == "only_step"

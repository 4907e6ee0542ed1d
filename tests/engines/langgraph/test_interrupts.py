"""Interrupts of graphs as questions: one, several, parallel, in subgraphs and maps; answers arrive as given."""

from __future__ import annotations

import asyncio
import itertools
import operator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, field_validator

pytest.importorskip("langgraph")

from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from checkpoints.records import Answer, Phase
from tests.engines.langgraph.rides import Ride, asked, error, output
from wfdash.contract import Waiting
from wfdash.engines import serve
from wfdash.engines.langgraph import LangGraphEngine
from wfdash.engines.serving import NotServable
from wfdash.web.pages.ui.forms.form import FormView


class Log(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    items: list[int]


def note(text: str) -> Any:
    def node(state: Log) -> dict[str, Any]:
        return {"log": [text]}

    return node


def ask(question: str, **more: Any) -> Any:
    def node(state: Log) -> dict[str, Any]:
        return {"log": [f"{question} {interrupt({'question': question, **more})}"]}

    return node


def graph_of(*nodes: tuple[str, Any], edges: tuple[tuple[str, str], ...] = ()) -> Any:
    builder = StateGraph(Log)
    for name, node in nodes:
        builder.add_node(name, node)
    names = [START, *(name for name, _ in nodes)]
    for source, target in edges or tuple(itertools.pairwise(names)):
        builder.add_edge(source, target)
    return builder


APPROVE = graph_of(("draft", note("drafted")), ("approve", ask("Publish?")), ("publish", note("published"))).compile()


async def test_a_node_asks_and_continues_with_the_answer():
    ride = Ride(APPROVE)
    assert asked(await ride.start({"log": ["in"]})) == ["Publish?"]
    assert ride.recorder.commits[-1].standing.phase is Phase.WAITING
    assert output(await ride.answer("yes"))["log"] == ["in", "drafted", "Publish? yes", "published"]
    assert ride.steps_of("step.finished") == ["draft", "approve", "publish"]
    assert ride.steps_of("step.waiting") == ["approve"]


async def test_an_earlier_checkpoint_is_answered_differently_and_nothing_before_it_runs_again():
    ride = Ride(APPROVE)
    await ride.start({})
    pause = ride.checkpoint
    await ride.answer("yes")
    key = pause.requests[0].key
    again = await ride.resume({key: Answer(key=key, value="no")}, at=pause)
    assert output(again)["log"] == ["drafted", "Publish? no", "published"]
    assert ride.steps_of("step.finished").count("draft") == 1


@pytest.mark.parametrize("value", [{}, None, False, 0, "", {"0" * 32: 1}, [], ["a"]])
async def test_every_answer_arrives_as_it_was_given(value: Any):
    def node(state: Log) -> dict[str, Any]:
        return {"log": [interrupt("What?")]}

    ride = Ride(graph_of(("a", node)).compile())
    await ride.start({})
    assert output(await ride.answer(value))["log"] == [value]


async def slow(state: Log) -> dict[str, Any]:
    await asyncio.sleep(0.2)
    return {"log": ["slow"]}


async def test_questions_are_asked_while_a_sibling_runs_and_it_does_not_run_again():
    edges = ((START, "a"), (START, "b"), (START, "c"))
    ride = Ride(graph_of(("a", ask("A?")), ("b", ask("B?")), ("c", slow), edges=edges).compile())
    drive = asyncio.create_task(ride.start({}))
    await ride.recorder.until(lambda recorder: sum(len(commit.opened) for commit in recorder.commits) == 2)
    assert not drive.done()
    assert "slow" not in str(ride.recorder.latest.body["position"])
    assert sorted(asked(await drive)) == ["A?", "B?"]
    assert asked(await ride.answer("x", ride.requests["A?"].key)) == ["B?"]
    assert output(await ride.answer("y"))["log"] == ["A? x", "B? y", "slow"]
    assert ride.steps_of("step.finished").count("c") == 1
    assert ride.steps_of("step.started").count("c") == 1


async def test_two_questions_in_one_node_are_asked_one_after_the_other():
    def node(state: Log) -> dict[str, Any]:
        return {"log": [interrupt("First?"), interrupt("Second?")]}

    ride = Ride(graph_of(("a", node)).compile())
    assert asked(await ride.start({})) == ["First?"]
    assert asked(await ride.answer(1)) == ["Second?"]
    assert output(await ride.answer(2))["log"] == [1, 2]


async def test_a_question_of_a_subgraph_belongs_to_its_node():
    child = graph_of(("think", note("thought")), ("ask", ask("Sure?"))).compile()
    ride = Ride(graph_of(("plan", child), ("act", note("acted"))).compile())
    assert asked(await ride.start({})) == ["Sure?"]
    assert ride.requests["Sure?"].step == "plan/ask"
    assert output(await ride.answer("yes"))["log"] == ["thought", "Sure? yes", "acted"]
    assert ride.steps_of("step.finished") == ["plan/think", "plan/ask", "act"]


async def test_a_subgraph_may_be_called_by_a_number():
    child = graph_of(("2", ask("Sure?"))).compile()
    ride = Ride(graph_of(("1", child)).compile())
    assert asked(await ride.start({})) == ["Sure?"]
    assert ride.requests["Sure?"].step == "1/2"
    assert output(await ride.answer("yes"))["log"] == ["Sure? yes"]
    assert ride.steps_of("step.finished") == ["1/2"]


async def test_a_subgraph_with_two_steps_that_ask_asks_each_once():
    child = graph_of(("first", ask("First?")), ("second", ask("Second?"))).compile()
    ride = Ride(graph_of(("plan", child)).compile())
    assert asked(await ride.start({})) == ["First?"]
    assert asked(await ride.answer(1)) == ["Second?"]
    assert output(await ride.answer(2))["log"] == ["First? 1", "Second? 2"]


async def test_a_subgraph_that_a_function_calls_asks_in_the_name_of_that_node():
    child = graph_of(("inner", ask("Inner?"))).compile()

    async def outer(state: Log) -> dict[str, Any]:
        found = await child.ainvoke({"log": []})
        return {"log": found["log"]}

    def blocking(state: Log) -> dict[str, Any]:
        return {"log": child.invoke({"log": []})["log"]}

    for node in (outer, blocking):
        ride = Ride(graph_of(("outer", node)).compile())
        assert asked(await ride.start({})) == ["Inner?"]
        assert ride.requests["Inner?"].step == "outer"
        assert output(await ride.answer("ok"))["log"] == ["Inner? ok"]


async def test_a_subgraph_with_a_memory_of_its_own_keeps_it():
    child = graph_of(("inner", ask("Inner?"))).compile(checkpointer=True)
    ride = Ride(graph_of(("one", child), ("two", note("two"))).compile())
    assert asked(await ride.start({})) == ["Inner?"]
    assert output(await ride.answer("ok"))["log"] == ["Inner? ok", "two"]


def a_map(ledger: object) -> Any:
    def spread(state: Log) -> list[Send]:
        return [Send("review", {"item": item}) for item in state["items"]]

    def review(state: Any) -> dict[str, Any]:
        answer = interrupt({"question": f"Item {state['item']}?"})
        return {"log": [f"{state['item']} {answer}"]}

    builder = StateGraph(Log)
    builder.add_node("review", review)
    builder.add_conditional_edges(START, spread, ["review"])
    return builder.compile()


async def test_items_of_a_map_are_answered_in_any_order():
    ride = Ride(a_map(None))
    assert sorted(asked(await ride.start({"items": [1, 2, 3]}))) == ["Item 1?", "Item 2?", "Item 3?"]
    assert set(map(str, ride.engine.show(ride.checkpoint).inputs.values())) == {
        "{'item': 1}",
        "{'item': 2}",
        "{'item': 3}",
    }
    two = [ride.requests["Item 3?"].key, ride.requests["Item 1?"].key]
    assert asked(await ride.answer("ok", *two)) == ["Item 2?"]
    assert output(await ride.answer("no"))["log"] == ["1 ok", "2 no", "3 ok"]


def subgraph_that_is_left(ledger: object) -> Any:
    def leave(state: Log) -> Command[Any]:
        return Command(graph=Command.PARENT, goto="end", update={"log": [interrupt("Leave?")]})

    child = graph_of(("leave", leave)).compile()
    nodes = (("child", child), ("never", note("never")), ("end", note("end")))
    return graph_of(*nodes, edges=((START, "child"),)).compile()


async def test_a_command_leads_out_of_a_subgraph():
    ride = Ride(subgraph_that_is_left(None))
    assert asked(await ride.start({})) == ["Leave?"]
    assert output(await ride.answer("now"))["log"] == ["now", "end"]


async def test_tasks_of_the_functional_api_do_not_run_again():
    calls = []

    @task
    def fetch(number: int) -> int:
        calls.append(number)
        return number * 2

    @entrypoint()
    def flow(number: int) -> dict[str, Any]:
        found = fetch(number).result()
        return {"found": found, "answer": interrupt({"question": f"Use {found}?"})}

    ride = Ride(flow)
    assert asked(await ride.start(4)) == ["Use 8?"]
    assert output(await ride.answer(True)) == {"found": 8, "answer": True}
    assert calls == [4]


async def test_the_error_of_a_task_is_that_of_the_step_that_was_answered():
    @task
    def ask(number: int) -> Any:
        return interrupt("?")["text"]

    @entrypoint()
    def flow(number: int) -> Any:
        return ask(number).result()

    ride = Ride(flow)
    await ride.start(4)
    assert (await ride.answer("yes")).error.step == "ask"


class Verdict(BaseModel):
    ok: bool
    amount: int = Field(ge=1)


async def test_an_answer_with_a_schema_is_a_form_and_becomes_that_type():
    def node(state: Log) -> dict[str, Any]:
        verdict = interrupt({"question": "How much?"}, response_schema=Verdict)
        return {"log": [type(verdict).__name__, verdict.amount]}

    ride = Ride(graph_of(("a", node)).compile())
    await ride.start({})
    assert ride.requests["How much?"].answer_schema["properties"]["amount"]["minimum"] == 1
    assert output(await ride.answer({"ok": True, "amount": 3}))["log"] == ["Verdict", 3]


async def test_a_question_without_a_schema_offers_yes_or_no_first_and_what_its_value_does():
    ride = Ride(graph_of(("a", ask("Is A right?")), ("b", ask("Which?", options=["red", "blue"]))).compile())
    await ride.start({})
    kinds = [one["title"] for one in ride.requests["Is A right?"].answer_schema["anyOf"]]
    assert kinds == ["Yes or no", "Text", "JSON"]
    await ride.answer("yes, it is")
    assert ride.requests["Which?"].answer_schema["anyOf"][0] == {"enum": ["red", "blue"], "title": "Choice"}
    assert not ride.requests["Which?"].card.get("proposal"), "the form shows what is offered"
    assert output(await ride.answer("green"))["log"] == ["Is A right? yes, it is", "Which? green"]


@pytest.mark.parametrize(
    ("value", "begins"),
    [
        ({"text_to_revise": "Cats are many"}, "Cats are many"),
        ({"question": "Fine?", "draft": "Cats are many", "words": 3, "order": "A-17"}, "Cats are many"),
        ({"question": "Pay?", "order": "A-17"}, None),
        ({"draft": "Cats are many", "before": "Cats are few"}, None),
        ({"note": "Cats are many", "options": ["keep", "drop"]}, None),
        ({"secret": "Cats are many"}, None),
    ],
)
async def test_an_answer_in_words_begins_as_the_one_text_that_is_proposed(value: dict[str, Any], begins: str | None):
    ride = Ride(graph_of(("a", lambda state: {"log": [interrupt(value)]})).compile(), secrets=frozenset(["secret"]))
    await ride.start({})
    (request,) = ride.requests.values()
    kinds = {one["title"]: one for one in request.answer_schema["anyOf"]}
    assert kinds["Text"].get("default") == begins
    form = FormView.from_schema(request.answer_schema)
    assert begins is None or not any(branch.chosen and branch.sent for branch in form.root.branches)
    assert output(await ride.answer("No cats"))["log"] == ["No cats"]


@pytest.mark.parametrize(
    ("value", "headline"),
    [
        ({"action": "send_email", "subject": "Lunch", "message": "Approve sending it?"}, "Approve sending it?"),
        ({"question": "Check the draft", "message": "Is it right?"}, "Check the draft"),
        ({"title": "Refund", "subject": "Order 7", "message": "Of Mara"}, "Refund"),
        ({"essay": "Cats …", "action": "Please approve the essay"}, "Please approve the essay"),
    ],
)
async def test_the_headline_is_what_asks(value: dict[str, Any], headline: str):
    (subject,) = asked(await Ride(graph_of(("a", lambda state: {"log": [interrupt(value)]})).compile()).start({}))
    assert subject.startswith(headline)


async def test_an_answer_that_the_graph_refuses_is_asked_for_again():
    def node(state: Log) -> dict[str, Any]:
        return {"log": [interrupt({"question": "How much?"}, response_schema=Verdict).amount]}

    ride = Ride(graph_of(("a", node)).compile())
    await ride.start({})
    assert asked(await ride.answer({"ok": True, "amount": 0})) == ["How much?"]
    assert output(await ride.answer({"ok": True, "amount": 2}))["log"] == [2]


async def test_a_node_that_fails_after_its_answer_keeps_it():
    fails = [True]

    def node(state: Log) -> dict[str, Any]:
        answer = interrupt("Go?")
        if fails.pop() if fails else False:
            raise RuntimeError("no network")
        return {"log": [answer]}

    ride = Ride(graph_of(("a", node)).compile())
    await ride.start({})
    assert error(await ride.answer("go")) == "a: RuntimeError: no network"
    assert ride.checkpoint.requests == ()
    assert output(await ride.resume())["log"] == ["go"]
    assert sum(len(commit.opened) for commit in ride.recorder.commits) == 1


async def test_breakpoints_become_questions_and_a_crash_does_not_run_past_them():
    builder = graph_of(("a", note("a")), ("b", note("b")), ("c", note("c")))
    for options, stops in (({"interrupt_before": ["b"]}, "b"), ({"interrupt_after": ["b"]}, "c")):
        ride = Ride(builder.compile(**options))
        assert asked(await ride.start({})) == [f"Continue with {stops}?"]
        crashed = next(
            commit.checkpoint
            for commit in reversed(ride.recorder.commits)
            if commit.checkpoint is not None and not commit.checkpoint.requests
        )
        assert asked(await ride.resume()) == [f"Continue with {stops}?"]
        assert asked(await ride.resume(at=crashed)) == [f"Continue with {stops}?"]
        assert output(await ride.answer(None))["log"] == ["a", "b", "c"]


async def test_a_breakpoint_in_a_subgraph_becomes_a_question():
    child = graph_of(("x", note("x")), ("y", note("y"))).compile(interrupt_before=["y"])
    ride = Ride(graph_of(("plan", child), ("end", note("end"))).compile())
    assert asked(await ride.start({})) == ["Continue with plan/y?"]
    assert output(await ride.answer(None))["log"] == ["x", "y", "end"]


async def test_a_crash_does_not_run_past_a_breakpoint_after_a_step_of_a_subgraph():
    child = graph_of(("x", note("x")), ("y", note("y")), ("z", note("z"))).compile(interrupt_after=["y"])
    ride = Ride(graph_of(("plan", child), ("end", note("end"))).compile())
    assert asked(await ride.start({})) == ["Continue with plan/z?"]
    saved = [commit.checkpoint for commit in ride.recorder.commits if commit.checkpoint is not None]
    before = [one for one in saved if not one.requests]
    assert before
    for crashed in reversed(before):
        assert asked(await ride.resume(at=crashed)) == ["Continue with plan/z?"]
    assert output(await ride.answer(None))["log"] == ["x", "y", "z", "end"]


async def test_a_breakpoint_in_a_graph_that_a_function_calls_becomes_a_question():
    child = graph_of(("x", note("x")), ("y", note("y"))).compile(interrupt_before=["y"])

    async def calls(state: Log) -> dict[str, Any]:
        return {"log": (await child.ainvoke({"log": []}))["log"]}

    ride = Ride(graph_of(("calls", calls), ("end", note("end"))).compile())
    assert asked(await ride.start({})) == ["Continue with calls?"]
    assert output(await ride.answer(None))["log"] == ["x", "y", "end"]


async def test_a_waiting_run_that_is_driven_without_an_answer_runs_nothing():
    ride = Ride(APPROVE)
    await ride.start({})
    before = len(ride.recorder.commits)
    assert isinstance(await ride.resume(), Waiting)
    assert [commit.events[0].kind for commit in ride.recorder.commits[before:]] == ["run.waiting"]


class Edited(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def _says_something(cls, text: str) -> str:
        if text == "...":
            raise ValueError("say what it is")
        return text


async def test_the_type_that_a_graph_is_served_with_is_the_form_of_its_questions():
    def human_node(state: Log) -> dict[str, Any]:
        return {"log": [interrupt({"text_to_revise": "original text 1"})]}

    graph = graph_of(("human_node", human_node), ("b", ask("Why?"))).compile()
    ride = Ride(serve(graph, name="graph", answers={"human_node": Edited}))
    assert asked(await ride.start({})) == ["Human node: original text 1"]
    (request,) = ride.checkpoint.requests
    assert request.answer_schema["properties"]["text"]["type"] == "string"
    assert ride.engine.check_answer(ride.served, request, {"text": "fine"}) == []
    (problem,) = ride.engine.check_answer(ride.served, request, {"text": "..."})
    assert problem == {"loc": ["text"], "msg": "say what it is"}
    await ride.answer({"text": "fine"})
    (other,) = ride.checkpoint.requests
    assert "anyOf" in other.answer_schema
    assert output(await ride.answer(True))["log"] == [{"text": "fine"}, "Why? True"]


async def test_a_question_that_was_open_before_its_type_was_given_keeps_its_form():
    graph = graph_of(("a", ask("Is A right?"))).compile()
    ride = Ride(graph)
    await ride.start({})
    before = ride.checkpoint.requests
    ride.served = serve(graph, name="graph", answers={"a": bool})
    assert ride.engine.check_answer(ride.served, before[0], "yes, it is") == []
    await ride.resume()
    assert ride.checkpoint.requests == before
    assert output(await ride.answer("yes, it is"))["log"] == ["Is A right? yes, it is"]


def test_an_answer_type_of_a_node_that_there_is_not_is_refused():
    graph = graph_of(("human_node", ask("Is A right?"))).compile()
    with pytest.raises(NotServable, match=r"answers\['human_nod'\] is of no step: did you mean 'human_node'\?"):
        LangGraphEngine().describe(serve(graph, name="graph", answers={"human_nod": bool}))
    with pytest.raises(ValueError, match=r"answers\['human_node'\]: no form can be made"):
        serve(graph, answers={"human_node": object()})


@pytest.mark.parametrize(
    ("value", "headline"),
    [
        ({"text_to_revise": "original text 1"}, "Human node: original text 1"),
        ({"type": "review_draft", "lines": ["x"], "amount": 3}, "Review draft: 3"),
        (["first", "second"], "Human node: first"),
        ({"password": "hunter2", "user": "ana"}, "Human node: ana"),
        ({"flag": True, "nested": {"a": 1}}, "Human node asks"),
        (None, "Human node asks"),
    ],
)
async def test_a_headline_says_what_is_decided(value: Any, headline: str):
    graph = graph_of(("human_node", lambda state: {"log": [interrupt(value)]})).compile()
    assert asked(await Ride(graph, secrets=frozenset({"password"})).start({})) == [headline]

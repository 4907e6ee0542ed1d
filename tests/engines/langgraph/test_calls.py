"""How a graph is called: configuration, context, streams, limits; and graphs that are agents."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy, interrupt
from typing_extensions import TypedDict

from checkpoints.errors import ClaimLost
from checkpoints.records import Json
from tests.engines.langgraph.rides import Ride, asked, error, output
from tests.workflow.world import ListRecorder, PowerCut
from wfdash.contract import InvalidInput, Waiting
from wfdash.engines import serve
from wfdash.engines.langgraph.schemas import chat_schema
from wfdash.examples.langgraph_model import ScriptedChatModel
from wfdash.questions.policy import Policy
from wfdash.values.schemas.validate import problems_of


class State(TypedDict, total=False):
    n: int
    said: str


@dataclass
class Company:
    name: str = ""


def graph_of(*nodes: Any, **options: Any) -> Any:
    builder = StateGraph(State, context_schema=Company)
    for node in nodes:
        builder.add_node(node, **options)
    builder.add_edge(START, nodes[0].__name__)
    for one, other in itertools.pairwise(nodes):
        builder.add_edge(one.__name__, other.__name__)
    return builder.compile()


def greets(state: State, config: RunnableConfig, runtime: Runtime[Company]) -> State:
    found = config["configurable"]
    return {"said": f"{found['greeting']} from {runtime.context.name} in {found['thread_id']}"}


async def test_configuration_and_context_are_given_to_nodes():
    served = serve(
        graph_of(greets), name="greeting", config={"configurable": {"greeting": "Hello"}}, context={"name": "ACME"}
    )
    assert output(await Ride(served).start({})) == {"said": "Hello from ACME in r"}


@dataclass
class Shop:
    region: str
    limit: int = 10


def sells(state: State, runtime: Runtime[Shop]) -> State:
    answer = interrupt("sell?")
    return {"said": f"{answer} in {runtime.context.region}, at most {runtime.context.limit}"}


def shop(context_schema: Any = Shop, node: Any = sells, state: Any = State) -> Any:
    return StateGraph(state, context_schema=context_schema).add_node("sells", node).add_edge(START, "sells").compile()


async def test_the_context_of_a_start_is_kept_over_answers_and_processes():
    ride = Ride(shop())
    assert asked(await ride.start({"n": 1, "context": {"region": "north"}})) == ["sell?"]
    assert "context" not in ride.engine.show(ride.checkpoint).state
    assert output(await ride.answer("yes")) == {"n": 1, "said": "yes in north, at most 10"}


async def test_a_context_of_defaults_needs_not_be_given():
    def names(state: State, runtime: Runtime[Company]) -> State:
        return {"said": f"<{runtime.context.name}>"}

    assert output(await Ride(graph_of(names)).start({})) == {"said": "<>"}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({}, "context: "),
        ({"context": {}}, "context.region: "),
        ({"context": {"region": "a", "limit": "many"}}, "context.limit: "),
        ({"context": {"region": "a", "limits": 3}}, "context.limits: "),
    ],
)
def test_a_context_that_does_not_fit_is_refused_at_its_field(message: Any, words: str):
    ride = Ride(shop())
    with pytest.raises(InvalidInput) as caught:
        ride.engine.check_input(ride.served, message)
    assert str(caught.value).startswith(words)


async def test_a_run_whose_context_does_not_fit_a_changed_graph_says_what_to_do():
    @dataclass
    class Changed:
        region: str
        currency: str

    ride = Ride(shop())
    await ride.start({"context": {"region": "north"}})
    ride.served = Ride(shop(Changed)).served
    assert "context.currency" in (words := error(await ride.answer("yes")))
    assert words.endswith("Give new fields a default, or start a new run")


async def test_a_field_of_the_state_that_is_called_context_stays_one():
    class Cited(State, total=False):
        context: str

    def cites(state: Cited, runtime: Runtime[Shop]) -> Cited:
        return {"said": f"{state['context']} {runtime.context.region}"}

    ride = Ride(shop(node=cites, state=Cited))
    outcome = await ride.start({"context": "a page", "runtime_context": {"region": "north"}})
    assert output(outcome) == {"context": "a page", "said": "a page north"}


async def test_a_function_gets_its_value_beside_its_context_and_keeps_it_for_the_next():
    @entrypoint(context_schema=Shop)
    def sum_up(number: int, runtime: Runtime[Shop]) -> str:
        return f"{number} {runtime.context.region} {runtime.previous}"

    ride = Ride(sum_up)
    assert output(await ride.start({"input": 1, "context": {"region": "north"}})) == "1 north None"
    ride.engine.check_follow_up(ride.served, ride.checkpoint, {"input": 2})
    assert output(await ride.follow_up({"input": 2})) == "2 north 1 north None"
    assert output(await ride.follow_up({"input": 3, "context": {"region": "south"}})).startswith("3 south")


def streams(state: State) -> State:
    get_stream_writer()({"type": "progress", "done": 1})
    return {"n": 1}


async def test_what_a_node_streams_is_an_event_of_its_step():
    ride = Ride(graph_of(streams))
    await ride.start({})
    (event,) = (event for event in ride.events if event.kind == "custom")
    assert (event.step, event.data["name"]) == ("streams", "progress")
    assert event.data["data"] == {"type": "progress", "done": 1}


async def test_a_graph_that_does_not_end_fails_at_its_limit_and_can_be_retried():
    def again(state: State) -> State:
        return {"n": state.get("n", 0) + 1}

    builder = StateGraph(State)
    builder.add_node(again)
    builder.add_edge(START, "again")
    builder.add_conditional_edges("again", lambda state: "again", ["again"])
    ride = Ride(serve(builder.compile(), name="loop", config={"recursion_limit": 5}))
    assert "GraphRecursionError" in error(await ride.start({}))
    reached = ride.engine.show(ride.checkpoint).state["n"]
    await ride.resume()
    assert ride.engine.show(ride.checkpoint).state["n"] > reached


async def test_a_node_is_tried_again_as_its_author_says():
    calls: list[int] = []

    def flaky(state: State) -> State:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("no network")
        return {"n": len(calls)}

    ride = Ride(graph_of(flaky, retry_policy=RetryPolicy(initial_interval=0.001, max_attempts=3)))
    assert output(await ride.start({})) == {"n": 3}


@entrypoint()
def remembers(number: int, *, previous: int | None = None) -> int:
    return number + (previous or 0)


async def test_a_function_with_a_memory_takes_its_input_again():
    ride = Ride(remembers)
    assert output(await ride.start(1)) == 1
    assert ride.engine.check_follow_up(ride.served, ride.checkpoint, 2) == 2
    assert output(await ride.follow_up(2)) == 3


@entrypoint()
def reads_its_runtime(number: int, runtime: Runtime[None]) -> int:
    return number + (runtime.previous or 0)


@entrypoint()
def forgets(number: int) -> int:
    return number


async def test_only_a_function_that_may_read_what_its_last_run_kept_takes_its_input_again():
    ride = Ride(reads_its_runtime)
    await ride.start(1)
    assert output(await ride.follow_up(2)) == 3
    ride = Ride(forgets)
    await ride.start(1)
    assert ride.engine.describe(ride.served).follow_up_schema is None
    with pytest.raises(InvalidInput, match="take no further message"):
        ride.engine.check_follow_up(ride.served, ride.checkpoint, 2)


def decide(state: State) -> State:
    return {"said": f"{state['n']} {interrupt('Decide?')}"}


async def test_fifty_runs_of_one_graph_see_nothing_of_each_other():
    graph = graph_of(decide)
    rides = [Ride(graph) for _ in range(50)]
    await asyncio.gather(*(ride.start({"n": number}) for number, ride in enumerate(rides)))
    assert all(asked(ride.outcome) == ["Decide?"] for ride in rides if ride.outcome is not None)
    found = await asyncio.gather(*(ride.answer(f"word {number}") for number, ride in enumerate(rides)))
    assert [output(one)["said"] for one in found] == [f"{number} word {number}" for number in range(50)]


async def test_a_drive_that_cannot_commit_ends_with_that_error_and_stops_its_nodes():
    ran: list[str] = []

    async def first(state: State) -> State:
        ran.append("first")
        return {}

    async def second(state: State) -> State:
        ran.append("second")
        await asyncio.sleep(30)
        return {}

    for problem in (PowerCut(), ClaimLost(run="r")):
        ran.clear()
        ride = Ride(graph_of(first, second))
        ride.recorder = Breaking(problem)
        with pytest.raises(type(problem)):
            await asyncio.wait_for(ride.start({}), 10)
        assert ran[:1] == ["first"]


class Breaking(ListRecorder):
    """Raises in its second commit, and in each after that."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__()
        self.problem = problem

    async def commit(self, commit: Any) -> None:
        if len(self.commits) >= 1:
            raise self.problem
        await super().commit(commit)


def call(number: int, name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": f"call-{number}", "type": "tool_call"}


SENT: list[str] = []


def send_email(to: str, text: str) -> str:
    """Send an e-mail."""
    SENT.append(f"{to}: {text}")
    return "sent"


def agent(mode: str) -> Any:
    calls = [call(1, "send_email", to="ana", text="Hi"), call(2, "send_email", to="ben", text="Ho")]
    model = ScriptedChatModel(replies=[AIMessage("I will write.", tool_calls=calls), AIMessage("All done")])
    gate = HumanInTheLoopMiddleware(interrupt_on={"send_email": True}, interrupt_mode=mode)
    return create_agent(model, tools=[send_email], middleware=[gate], name="mailer")


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_each_call_of_a_tool_is_a_card_of_its_own_and_is_answered_apart(mode: str):
    SENT.clear()
    ride = Ride(agent(mode))
    assert sorted(asked(await ride.start({"messages": "Write to both"}))) == [
        "ana, Hi · send_email",
        "ben, Ho · send_email",
    ]
    ana, ben = ride.requests["ana, Hi · send_email"], ride.requests["ben, Ho · send_email"]
    assert (ana.kind, [one["name"] for one in ana.card["actions"]]) == (
        "tool_call",
        ["approve", "edit", "reject", "respond"],
    )
    spoken = [one for one in ana.card["evidence"] if one["kind"] == "transcript"]
    assert "Write to both" in str(spoken)
    edit = {"action": "edit", "arguments": {"to": "ana", "text": "Hello"}}
    assert asked(await ride.answer(edit, ana.key)) == ["ben, Ho · send_email"]
    await ride.answer({"action": "reject", "feedback": "not him"}, ben.key)
    assert SENT == ["ana: Hello"]
    said = [one.text for one in ride.engine.show(ride.checkpoint).transcript]
    assert said[0] == "Write to both"
    assert said[-1] == "All done "
    assert any("not him" in text for text in said)


async def test_three_actions_of_one_turn_are_answered_in_any_order_over_restarts():
    calls = [call(number, "send_email", to=f"p{number}", text="Hi") for number in range(3)]
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=calls), AIMessage("Done")])
    gate = HumanInTheLoopMiddleware(interrupt_on={"send_email": {"allowed_decisions": ["approve", "respond"]}})
    SENT.clear()
    ride = Ride(create_agent(model, tools=[send_email], middleware=[gate]))
    outcome = await ride.start({"messages": [{"role": "user", "content": "Go"}]})
    keys = [request.key for request in ride.checkpoint.requests]
    assert [key.partition("#")[2] for key in keys] == ["0", "1", "2"]
    assert [one["name"] for one in ride.checkpoint.requests[0].card["actions"]] == ["approve", "respond"]
    for key in (keys[2], keys[0]):
        outcome = await ride.answer({"action": "approve"}, key)
        assert isinstance(outcome, Waiting)
        assert SENT == []
    await ride.answer({"action": "respond", "response": "no need"}, keys[1])
    assert sorted(SENT) == ["p0: Hi", "p2: Hi"]
    answers = [one.text for one in ride.engine.show(ride.checkpoint).transcript if one.role == "tool"]
    assert sorted(answers) == ["no need", "sent", "sent"]


INBOX = {
    "action_request": {"action": "pay", "args": {"amount": 3}},
    "config": {"allow_accept": True, "allow_edit": True, "allow_ignore": True, "allow_respond": False},
    "description": "An invoice",
}


@pytest.mark.parametrize("shape", [INBOX, [INBOX], [INBOX, INBOX]])
async def test_a_request_for_agent_inbox_is_a_card_and_its_answer_a_list(shape: Json):
    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(str(interrupt(shape)))]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    ride = Ride(builder.compile())
    await ride.start({"messages": "Hi"})
    number = len(shape) if isinstance(shape, list) else 1
    assert len(ride.checkpoint.requests) == number
    request = ride.checkpoint.requests[0]
    assert [one["name"] for one in request.card["actions"]] == ["approve", "edit", "reject"]
    assert request.card["body"] == "An invoice"
    await ride.answer({"action": "edit", "arguments": {"amount": 2}}, request.key)
    while ride.checkpoint.requests:
        await ride.answer({"action": "reject"}, ride.checkpoint.requests[0].key)
    ignored = {"type": "ignore", "args": None}
    expected = [{"type": "edit", "args": {"action": "pay", "args": {"amount": 2}}}, *[ignored] * (number - 1)]
    assert ride.engine.show(ride.checkpoint).transcript[-1].text == str(expected)


async def test_policies_are_given_by_tool_and_by_step():
    policies = {"send_email": Policy(by="finance", need=2)}
    ride = Ride(serve(agent("batched"), policies=policies, by="ops"))
    await ride.start({"messages": "Hi"})
    request = ride.checkpoint.requests[0]
    assert (request.by, request.policy["need"]) == (("finance",), 2)


async def test_what_a_model_writes_is_streamed_to_its_step():
    ride = Ride(agent("batched"))
    await ride.start({"messages": "Hi"})
    assert {step for step, _ in ride.recorder.streamed} == {"model"}
    assert "".join(text for _, text in ride.recorder.streamed) == "I will write. "


def chat() -> Any:
    def reply(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"heard {sum(one.type == 'human' for one in state['messages'])}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("reply", reply)
    builder.add_edge(START, "reply")
    return builder.compile()


async def test_a_chat_takes_the_next_message_and_remembers_what_was_said():
    ride = Ride(chat())
    await ride.start({"messages": "One"})
    engine, checkpoint = ride.engine, ride.checkpoint
    assert engine.describe(ride.served).follow_up_schema is not None
    message = engine.check_follow_up(ride.served, checkpoint, {"messages": "Two"})
    with pytest.raises(InvalidInput):
        engine.check_follow_up(ride.served, checkpoint, {})
    found = output(await ride.follow_up(message))
    assert [one["content"] for one in found["messages"]] == ["One", "heard 1", "Two", "heard 2"]


@pytest.mark.parametrize("given", ["Hi", [{"role": "user", "content": "Hi"}]])
async def test_a_chat_takes_a_text_or_messages(given: Json):
    ride = Ride(chat())
    assert ride.engine.check_input(ride.served, {"messages": given}) == {"messages": given}
    assert len(output(await ride.start({"messages": given}))["messages"]) == 2
    with pytest.raises(InvalidInput):
        ride.engine.check_input(ride.served, {"messages": [{"role": "nurse", "content": "Hi"}]})


async def test_the_transcript_names_calls_and_their_results():
    model = ScriptedChatModel(
        replies=[AIMessage("", tool_calls=[call(1, "send_email", to="a", text="b")]), AIMessage("Done")]
    )
    ride = Ride(create_agent(model, tools=[send_email]))
    await ride.start({"messages": "Go"})
    user, asks, tool, last = ride.engine.show(ride.checkpoint).transcript
    assert (user.role, asks.calls[0].name, asks.calls[0].arguments) == ("user", "send_email", {"to": "a", "text": "b"})
    assert (tool.role, tool.call, tool.text, last.text) == ("tool", asks.calls[0].id, "sent", "Done ")
    assert ride.engine.show(ride.checkpoint).state == {}


def names(steps: Any) -> Iterator[str]:
    yield from (f"{one.name}|{one.title}|{one.person}" for one in steps)


def test_steps_of_middleware_have_titles_and_say_that_they_ask():
    found = list(names(Ride(agent("batched")).engine.describe(Ride(agent("batched")).served).steps))
    assert "HumanInTheLoopMiddleware.after_model|Human in the loop: after model|True" in found


async def test_a_card_shows_the_end_of_a_long_conversation():
    said = [{"role": "user", "content": f"message {number} {'x' * 20_000}"} for number in range(30)]
    ride = Ride(agent("batched"))
    await ride.start({"messages": said})
    (spoken,) = (one for one in ride.checkpoint.requests[0].card["evidence"] if one["kind"] == "transcript")
    assert (len(spoken["value"]), spoken["earlier"]) == (20, 11)
    assert len(str(spoken)) < 250_000


EXTRAS = [{"id": "m1"}, {"tool_calls": [{"name": "pay", "args": {}, "id": "c"}]}, {"type": "x"}]


@pytest.mark.parametrize("more", EXTRAS)
def test_who_writes_a_message_neither_replaces_another_nor_calls_tools(more: dict[str, object]) -> None:
    said = [{"role": "assistant", "content": "approved"}]
    assert problems_of(chat_schema(), said) == []
    assert problems_of(chat_schema(), [{**said[0], **more}])


async def test_tokens_of_new_messages_are_counted_once_also_through_a_subgraph():
    def says(text: str, tokens: int) -> Any:
        usage: Any = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
        said = AIMessage(text, id=text, usage_metadata=usage, response_metadata={"model_name": "gpt-x"})

        def speak(state: MessagesState) -> Any:
            return {"messages": [*state["messages"], said]}

        return speak

    inner = StateGraph(MessagesState).add_node("deep", says("one", 10)).add_edge(START, "deep").compile()
    outer = StateGraph(MessagesState).add_node("desk", inner).add_node("last", says("two", 20))
    ride = Ride(outer.add_edge(START, "desk").add_edge("desk", "last").compile())
    await ride.start({"messages": [{"role": "user", "content": "hello"}]})
    used = [
        (event.step, event.data["model"], event.data["input_tokens"]) for event in ride.events if event.kind == "usage"
    ]
    assert used == [("desk/deep", "gpt-x", 10), ("last", "gpt-x", 20)]

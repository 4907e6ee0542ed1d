"""Agents: approvals in every shape as cards, the conversation on them, tokens while they come, follow-up messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from checkpoints.records import Json
from tests.engines.langgraph.rides import Ride, asked, output
from wfdash.contract import InvalidInput, Waiting
from wfdash.engines import serve
from wfdash.engines.langgraph.definition.schemas import chat_schema
from wfdash.examples.langgraph_model import ScriptedChatModel
from wfdash.questions.policy import Policy
from wfdash.values.schemas.validate import problems_of


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
        "send_email: to ana, text Hi",
        "send_email: to ben, text Ho",
    ]
    ana, ben = ride.requests["send_email: to ana, text Hi"], ride.requests["send_email: to ben, text Ho"]
    assert (ana.kind, [one["name"] for one in ana.card["actions"]]) == (
        "tool_call",
        ["approve", "edit", "reject", "respond"],
    )
    spoken = [one for one in ana.card["evidence"] if one["kind"] == "transcript"]
    assert "Write to both" in str(spoken)
    edit = {"action": "edit", "arguments": {"to": "ana", "text": "Hello"}}
    assert asked(await ride.answer(edit, ana.key)) == ["send_email: to ben, text Ho"]
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

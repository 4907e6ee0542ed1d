"""Agents: approval of tool calls, conversations, orchestrations, follow-ups."""

from __future__ import annotations

import pytest

pytest.importorskip("agent_framework")

from agent_framework import Agent, Content, WorkflowBuilder

from tests.engines.agent_framework import samples
from tests.engines.agent_framework.desk import Desk, Scripted
from tests.engines.agent_framework.samples import REFUNDS, chat, refunds


@pytest.fixture(autouse=True)
def _no_refunds():
    REFUNDS.clear()
    yield
    REFUNDS.clear()


async def test_two_tool_calls_are_approved_and_rejected_apart_over_a_restart():
    desk = Desk(refunds())
    await desk.start("please refund")
    first, second = desk.requests
    assert (first.kind, first.step, first.card["subject"]) == ("tool_call", "clerk", "order 7, 40.0 · refund")
    assert [one["name"] for one in first.card["actions"]] == ["approve", "edit", "reject", "respond"]
    assert first.answer_schema["properties"]["arguments"]["properties"]["amount"]["type"] == "number"
    assert first.card["body"] == "Pay money back to a customer."
    await desk.resume({first.key: {"action": "approve"}})
    assert [one.key for one in desk.requests] == [second.key]
    assert REFUNDS == []
    await desk.resume({second.key: {"action": "reject", "feedback": "too late"}})
    assert REFUNDS == [(7, 40.0)]
    assert "paid 40.0; Error: Tool call invocation was rejected by user." in desk.output
    assert "The call of refund was rejected by a person, who said: too late" in desk.output


async def test_tokens_that_a_chat_client_reports_are_counted():
    tokens = Content.from_usage({"input_token_count": 30, "output_token_count": 4})
    agent = Agent(Scripted(lambda messages: ["hello", tokens]), name="parrot")
    desk = Desk(WorkflowBuilder(start_executor=agent, name="chat").build())
    await desk.start("who?")
    (used,) = [event for event in desk.events if event.kind == "usage"]
    assert (used.step, used.data["model"]) == ("parrot", "gpt-x")
    assert (used.data["input_tokens"], used.data["output_tokens"]) == (30, 4)


async def test_edited_arguments_are_what_the_tool_is_called_with():
    desk = Desk(refunds())
    await desk.start("please refund")
    await desk.answer({"action": "edit", "arguments": {"order": 7, "amount": 12.5}}, {"action": "approve"})
    assert REFUNDS == [(7, 12.5), (8, 5.0)]
    assert "paid 12.5; paid 5.0" in desk.output
    called = [use.arguments for message in desk.engine.show(desk.head).transcript for use in message.calls]
    # What the model proposed: the edit is with the answer.
    assert called == [{"order": 7}, {"order": 7, "amount": 40.0}, {"order": 8, "amount": 5.0}]


async def test_a_call_of_an_agent_in_a_sub_workflow_is_edited_too():
    desk = Desk(samples.nested_refunds())
    await desk.start("please refund")
    assert {one.step for one in desk.requests} == {"office"}
    await desk.answer({"action": "edit", "arguments": {"order": 7, "amount": 12.5}})
    await desk.answer({"action": "reject", "feedback": "not this one"})
    assert REFUNDS == [(7, 12.5)]
    assert "not this one" in str(desk.output)
    assert desk.speakers.count("clerk") == 3


async def test_a_person_answers_in_the_place_of_a_tool():
    desk = Desk(refunds())
    await desk.start("please refund")
    await desk.answer({"action": "respond", "response": "sent a voucher"}, {"action": "approve"})
    assert REFUNDS == [(8, 5.0)]
    assert "A person answered in its place: sent a voucher" in desk.output


async def test_the_transcript_has_what_was_said_and_called():
    desk = Desk(refunds())
    await desk.start("please refund")
    await desk.answer({"action": "approve"}, {"action": "approve"})
    shown = desk.engine.show(desk.head)
    assert [(one.role, one.text, [use.name for use in one.calls]) for one in shown.transcript] == [
        ("user", "please refund", []),
        ("assistant", "Let me see.", ["look_up"]),
        ("tool", "order 7: 40 EUR", []),
        ("assistant", "", ["refund", "refund"]),
        ("tool", "paid 40.0", []),
        ("tool", "paid 5.0", []),
        ("assistant", "Results: paid 40.0; paid 5.0.", []),
    ]
    assert shown.state == {}


async def test_what_an_agent_says_is_streamed():
    desk = Desk(refunds())
    await desk.start("please refund")
    assert "".join(text for step, text in desk.recorder.streamed if step == "clerk") == "Let me see. "


async def test_a_chat_goes_on_where_the_finished_run_has_left_it():
    desk = Desk(chat())
    await desk.start("hello")
    assert desk.output == "heard 1: hello"
    await desk.follow("are you there?")
    assert desk.output == "heard 2: are you there?"
    assert [one.text for one in desk.engine.show(desk.head).transcript if one.role == "user"] == [
        "hello",
        "are you there?",
    ]


def test_only_conversations_take_a_follow_up():
    assert Desk(chat()).engine.describe(Desk(chat()).served).follow_up_schema == {
        "type": "string",
        "title": "Message",
        "minLength": 1,
        "format": "textarea",
    }
    desk = Desk(samples.review_workflow())
    assert desk.engine.describe(desk.served).follow_up_schema is None

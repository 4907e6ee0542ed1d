"""Orchestrations: sequential, concurrent, group chat, Magentic with its plan reviewed."""

from __future__ import annotations

import pytest

pytest.importorskip("agent_framework_orchestrations")

from tests.engines.agent_framework import orchestrations
from tests.engines.agent_framework.desk import Desk


async def test_agents_in_a_row_finish_with_what_the_last_says():
    desk = Desk(orchestrations.sequential())
    await desk.start("a text")
    assert desk.output == "edited (a text)"
    assert desk.speakers == ["writer", "editor"]


async def test_what_an_agent_wrote_is_approved_or_sent_back():
    desk = Desk(orchestrations.sequential(asks=True))
    await desk.start("a text")
    (request,) = desk.requests
    assert request.card["subject"] == "Approve what writer wrote?"
    assert [one["label"] for one in request.card["actions"]] == ["Approve", "Ask for changes"]
    await desk.answer({"action": "reject", "reason": "shorter"})
    assert "draft (shorter)" in desk.requests[0].card["body"]
    await desk.answer({"action": "approve"})
    await desk.answer({"action": "approve"})
    assert "edited" in desk.output


async def test_agents_side_by_side_give_what_each_says():
    desk = Desk(orchestrations.concurrent())
    await desk.start("a text")
    assert "legal (a text)" in str(desk.output)
    assert "taxed (a text)" in str(desk.output)


async def test_a_group_chat_talks_in_turn():
    desk = Desk(orchestrations.group_chat())
    await desk.start("a topic")
    assert desk.speakers[:3] == ["ana", "ben", "ana"]


async def test_a_plan_is_revised_and_then_approved_over_restarts():
    desk = Desk(orchestrations.magentic())
    await desk.start("find out")
    (request,) = desk.requests
    assert request.card["subject"] == "Approve the plan?"
    assert request.card["body"] == "1. research"
    assert [one["label"] for one in request.card["actions"]] == ["Approve", "Revise"]
    await desk.answer({"action": "reject", "reason": "check twice"})
    assert desk.requests[0].card["body"] == "1. research, 2. check twice"
    await desk.answer({"action": "approve"})
    assert desk.output == "the answer"


async def test_a_handoff_asks_for_the_next_message_until_it_is_left_empty():
    desk = Desk(orchestrations.handoff())
    await desk.start("hi")
    (request,) = desk.requests
    assert (request.card["subject"], request.card["body"]) == ("Front asks", "hello (hi)")
    assert "proposal" not in request.card
    assert "hello (hi)" not in str(request.card.get("evidence")), "what the card says already"
    assert request.answer_schema["anyOf"][0] == {"type": "string", "format": "textarea"}
    await desk.answer("and now?")
    assert "hello (and now?)" in str(desk.requests[0].card)
    await desk.answer(None)
    assert "hello (hi)" in str(desk.output)


async def test_the_result_of_a_tool_stands_before_the_words_that_followed_it():
    desk = Desk(orchestrations.handoff(at_once=True))
    await desk.start("hi")
    await desk.answer("and now?")
    said = desk.engine.show(desk.head).transcript
    assert [(one.role, one.text) for one in said] == [
        ("user", "hi"),
        ("user", "and now?"),
        ("tool", '{"handoff_to": "back"}'),
        ("assistant", "bye (and now?)"),
    ]

"""Conversations as evidence on cards: their end, and of long messages what a card can hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkpoints.records import Json
from wfdash.contract import Message, ToolUse
from wfdash.questions.card import MAX_CARD
from wfdash.questions.tools import LEFT_OUT, LONGEST, conversation, masked_card
from wfdash.values.schemas.secrets import HIDDEN


def shown(*messages: Message, most: int = 200) -> dict[str, Any]:
    (piece,) = conversation(messages, most=most)
    return piece.shown()


def asks(**arguments: Json) -> Message:
    return Message(role="assistant", calls=(ToolUse(id="c", name="find", arguments=arguments),))


def test_it_is_the_end_and_says_how_much_came_before() -> None:
    piece = shown(*(Message(role="user", text=str(number)) for number in range(5)), most=2)
    assert ([one["text"] for one in piece["value"]], piece["earlier"]) == (["3", "4"], 3)
    assert conversation((), most=2) == []


def test_what_is_short_stays_as_it_is() -> None:
    said = (Message(role="user", text="x" * LONGEST), asks(words="y" * 1_000), Message(role="tool", text='{"a": [1]}'))
    assert conversation(said, most=9)[0].messages == said


@pytest.mark.parametrize("text", ["x" * 300_000, json.dumps({"rows": ["x" * 400] * 900}), "[" * 90 + "1" * 300_000])
def test_a_question_can_be_asked_after_the_longest_conversation(text: str) -> None:
    said = [one for _ in range(15) for one in (asks(words=text), Message(role="tool", text=text))]
    assert len(json.dumps(shown(*said))) < MAX_CARD / 2


def test_the_secrets_of_a_result_are_hidden_in_what_is_left_of_it() -> None:
    result = Message(role="tool", text=json.dumps({"pin": "4711-0815", "rows": ["x" * 90] * 300}))
    card = masked_card({"evidence": [shown(result, asks(pin="4711-0815", rows=["x" * 90] * 300))]}, {"pin"})
    text = json.dumps(card, ensure_ascii=False)
    assert "4711" not in text
    assert text.count(HIDDEN) == 2
    assert "280 more" in text


def test_json_that_is_too_deep_to_be_searched_for_secrets_is_left_out() -> None:
    deep = Message(role="tool", text='{"pin": "4711", "in": ' + "[" * 90 + "1" * 20_000)
    assert shown(deep)["value"][0]["text"] == LEFT_OUT

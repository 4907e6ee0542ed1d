"""What commands print of values that no author thought of, and of a conversation on a card."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from wfdash.cli.output import Output
from wfdash.cli.requests import card_text
from wfdash.contract import Message, ToolUse
from wfdash.questions.evidence import Transcript

ODD = "\x1b[2J \x9b31m \u202eevil\u2069 \u200b\u2028 \x7f half \ud800 \x00 東京\n\tÀ"


@pytest.mark.parametrize("value", [ODD, {ODD: [ODD]}])
def test_json_says_the_same_without_a_character_that_a_terminal_would_obey(value: object, capsys) -> None:
    Output(as_json=True).data(value)
    printed = capsys.readouterr().out
    assert json.loads(printed) == value
    assert all(char.isprintable() or char == "\n" for char in printed)
    assert "東京" in printed


def printed(*messages: Message) -> list[str]:
    card: dict[str, Any] = {"subject": "Refund?", "evidence": [Transcript(messages=messages).shown()]}
    request: Any = SimpleNamespace(card=card, step="pay")
    return card_text(request).split("\n")


def test_each_message_is_a_line_and_each_call_is_one_with_its_result() -> None:
    call = ToolUse(id="c", name="look_up", arguments={"order": 1077})
    open_call = ToolUse(id="d", name="refund", arguments={"amount": 420.0, "why": "bent"})
    lines = printed(
        Message(role="user", text="It arrived\nbroken."),
        Message(role="assistant", name="clerk", text="I look.", calls=(call,)),
        Message(role="tool", call="c", text="Office chair"),
        Message(role="assistant", calls=(open_call,)),
    )
    assert lines[-4:] == [
        "  user: It arrived broken.",
        "  clerk: I look.",
        "  look_up(order=1077) -> Office chair",
        '  refund(amount=420.0, why="bent")',
    ]


def test_a_terminal_shows_the_end_of_a_long_conversation_without_its_control_characters() -> None:
    lines = printed(*(Message(role="user", text=f"\x1b[2Jline {number}") for number in range(30)))
    assert "  (10 earlier messages)" in lines
    assert lines[-1] == "  user:  [2Jline 29"
    assert len([line for line in lines if "user:" in line]) == 20

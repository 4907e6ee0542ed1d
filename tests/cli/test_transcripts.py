"""A conversation on a card, as a terminal prints it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from wfdash.cli.requests import card_text
from wfdash.contract import Message, ToolUse
from wfdash.questions.evidence import Transcript


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

from __future__ import annotations

from wfdash.notifications.letters import HEADLINES, headline
from wfdash.notifications.preferences import KINDS


def test_every_kind_has_its_words() -> None:
    assert KINDS.keys() <= HEADLINES.keys()
    assert headline("mentioned", {"by": "ben", "subject": "Pay 900?"}) == "ben mentioned you: Pay 900?"
    decided = {"verdict": "approve", "subject": "Pay 900?"}
    assert headline("decided", {**decided, "by": "ben"}) == "Approved by ben: Pay 900?"
    assert headline("decided", decided) == "Approved by its deadline: Pay 900?"
    assert headline("decided", {**decided, "verdict": "ask_again", "by": "ben"}) == "Ask again by ben: Pay 900?"


def test_a_headline_is_one_line_whatever_a_workflow_writes() -> None:
    line = headline("opened", {"subject": "a\r\nBcc: x@example.org\x00 {by} \u202e" + "b" * 300})
    assert "\n" not in line
    assert "\u202e" not in line
    assert len(line) <= 200
    assert line.startswith("Review requested: a Bcc: x@example.org {by}")

"""What the inbox can be filtered by. Pure.

``workflow:refund risk:high,medium due:<4h -assignee:none "blue chair"``
"""

from __future__ import annotations

from wfdash.queries.search.language import INEQUALITIES, ParsedFilter, Vocabulary, day_of, duration_of, read

RISKS = ("none", "low", "medium", "high")
STATES = ("overdue", "unread", "asked", "assigned", "unanswerable")
EXAMPLES = {
    "workflow": "workflow:refund",
    "step": "step:review",
    "kind": "kind:approval",
    "risk": "risk:high",
    "due": "due:<4h",
    "age": "age:>2d",
    "assignee": "assignee:me",
    "by": "by:finance",
    "is": "is:overdue",
}
"""Every key, with what one writes."""
MEANINGS = {
    "workflow": "this workflow",
    "step": "this step",
    "kind": "approval, choice, question, form …",
    "risk": "high, medium, low or none",
    "due": "<4h, >2d, today, overdue, none, <2030-01-31",
    "age": ">2d: older, <1h: newer",
    "assignee": "me, none, or a user name",
    "by": "addressed to this person or group",
    "is": "overdue, unread, asked, assigned, unanswerable",
}


def _is_due(value: str, sign: str) -> bool:
    named = value.lower() in {"today", "overdue", "none", "any"}
    return named or duration_of(value) is not None or day_of(value) is not None


VOCABULARY = Vocabulary(
    examples=EXAMPLES,
    meanings=MEANINGS,
    checks={
        "risk": lambda value, sign: value.lower() in RISKS,
        "is": lambda value, sign: value.lower() in STATES,
        "due": _is_due,
        "age": lambda value, sign: duration_of(value) is not None,
    },
    signs={"due": INEQUALITIES, "age": INEQUALITIES},
)


def read_filter(text: str) -> ParsedFilter:
    """Read a filter of the inbox. Never raises: what is wrong with it stands in ``flaws``."""
    return read(text, VOCABULARY)

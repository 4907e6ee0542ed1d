"""What is asked is checked, and made legible, before anyone or anything quotes it."""

from __future__ import annotations

import pytest

from wfdash.questions.card import headline_field
from wfdash.questions.cards import Question, prepare


def test_no_character_of_a_subject_is_invisible_wherever_it_is_quoted() -> None:
    asking = prepare(Question(subject="Pay 900\u202e000.1\x1b[2J?", body="Kept as it is: \u202e"), None)
    assert asking.card["subject"] == "Pay 900[U+202E]000.1\u241b[2J?"
    assert asking.card["body"] == "Kept as it is: \u202e"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"action": "send_email", "subject": "Lunch", "message": "Approve sending it?"}, "message"),
        ({"question": "Check the draft", "message": "Is it right?"}, "question"),
        ({"subject": "Order 7", "title": "Refund", "message": "Of Mara"}, "title"),
        ({"title": 3, "subject": "", "essay": "Cats"}, ""),
    ],
)
def test_the_headline_is_the_field_that_asks(fields: dict[str, object], found: str) -> None:
    assert headline_field(fields, lambda value: isinstance(value, str) and bool(value)) == found

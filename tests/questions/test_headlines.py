from __future__ import annotations

import pytest

from wfdash.questions.card import headline_field


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

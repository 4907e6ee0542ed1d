"""What is asked is checked, and made legible, before anyone or anything quotes it."""

from __future__ import annotations

from wfdash.questions.cards import Question, prepare


def test_no_character_of_a_subject_is_invisible_wherever_it_is_quoted() -> None:
    asking = prepare(Question(subject="Pay 900\u202e000.1\x1b[2J?", body="Kept as it is: \u202e"), None)
    assert asking.card["subject"] == "Pay 900[U+202E]000.1\u241b[2J?"
    assert asking.card["body"] == "Kept as it is: \u202e"

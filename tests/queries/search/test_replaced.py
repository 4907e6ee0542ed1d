"""A part of a filter is replaced; everything else stays as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfdash.queries.search import MAX_LENGTH, asked_for, replaced, split


@pytest.mark.parametrize(
    ("text", "part", "found"),
    [
        ("", "status:failed", "status:failed"),
        ("workflow:deploy", "status:failed", "workflow:deploy status:failed"),
        ("status:open workflow:deploy", "status:failed", "status:failed workflow:deploy"),
        ('a  status:open "b c" STATUS:waiting', "status:failed", 'a status:failed "b c"'),
        ('by:"Finance, EU" status:failed', "", 'by:"Finance, EU"'),
        ("-status:completed", "status:failed", "-status:completed status:failed"),
        ("status:failed", "", ""),
        (':""', "status:new", ': "" status:new'),
    ],
)
def test_one_part_is_replaced_where_it_is_or_added(text, part, found):
    assert replaced(text, "status", part) == found


@given(st.text(alphabet='status:failed -"<x,.', max_size=60))
def test_what_is_not_of_the_key_is_said_as_before(text):
    rest = [said for _, said in split(text) if getattr(said, "key", "") != "status" or getattr(said, "negated", False)]
    again = list(split(replaced(text, "status", "status:new")))
    assert [said for part, said in again if part != "status:new"] == rest
    assert asked_for(replaced(text, "status", "status:new"), "status") == ("new",)


def test_a_colon_by_itself_is_a_word_and_nothing_else():
    assert [part for part, _ in split(': "" a: b')] == [":", '""', "a:", "b"]


def test_what_a_filter_asks_for_by_a_key_is_found_whatever_the_case():
    assert asked_for("Status:Failed,open x", "status") == ("failed", "open")
    assert asked_for("-status:failed", "status") == ()
    assert asked_for("x" * MAX_LENGTH + " status:failed", "status") == ()

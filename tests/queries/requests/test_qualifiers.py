from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfdash.queries.requests.inbox import FILTER
from wfdash.queries.search import duration_of, moment_of

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def test_a_filter_is_split_into_terms_and_words():
    found = FILTER.read('workflow:refund "blue chair" -risk:low,medium due:<4h -broken loose')
    assert found.flaws == ()
    assert found.words == ("blue chair", "loose")
    assert found.unwanted == ("broken",)
    workflow, risk, due = found.terms
    assert (workflow.key, workflow.values) == ("workflow", ("refund",))
    assert (risk.values, risk.negated) == (("low", "medium"), True)
    assert (due.sign, due.values) == ("<", ("4h",))


@pytest.mark.parametrize(
    ("text", "part", "remedy"),
    [
        ("colour:red", "colour:red", "Available: workflow"),
        ("due:<4x", "due:<4x", "due:<4h"),
        ("risk:huge", "risk:huge", "risk:high"),
        ("risk:high,huge", "risk:high,huge", 'Invalid value "huge" for risk'),
        ("is:late", "is:late", "is:overdue"),
        ("age:soon", "age:soon", "age:>2d"),
        ("workflow:", "workflow:", "workflow:refund"),
        ("by:>finance", "by:>finance", "only be used with due and age"),
        ("due:<2026-13-40", "due:<2026-13-40", "due:<4h"),
        ("http://x", "http://x", "in quotes"),
    ],
)
def test_what_cannot_be_understood_is_named_with_its_remedy(text, part, remedy):
    (flaw,) = FILTER.read(f"word {text} workflow:x").flaws
    assert flaw.part == part
    assert remedy in flaw.message


def test_a_quoted_value_keeps_its_blanks_commas_and_signs():
    (term,) = FILTER.read('by:"Finance, EU" ').terms
    assert term.values == ("Finance, EU",)
    assert FILTER.read('step:"<a>"').terms[0].values == ("<a>",)


def test_a_filter_that_is_too_long_says_so():
    assert "at most 500" in FILTER.read("x" * 501).flaws[0].message


def test_spans_and_days_are_moments():
    assert duration_of("1d12h") == timedelta(hours=36)
    assert duration_of("1d x") is None
    assert moment_of("4h", NOW) == NOW + timedelta(hours=4)
    assert moment_of("2026-02-01", NOW) == datetime(2026, 2, 1, tzinfo=UTC)
    assert moment_of("999999w", NOW) is not None


@given(st.text(max_size=200))
def test_no_text_makes_it_fail(text):
    found = FILTER.read(text)
    assert all(flaw.message and flaw.part for flaw in found.flaws)

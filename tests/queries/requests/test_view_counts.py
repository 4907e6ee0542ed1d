"""Saved views count what their list shows, up to a limit, in one query."""

from __future__ import annotations

from tests import people
from tests.queries.test_queries import run as run
from wfdash.queries.requests.inbox import count_in_views, read_inbox


def test_a_view_counts_what_its_list_shows(run, everybody, django_assert_num_queries):
    people.ask(run, "High", risk=3), people.ask(run, "Low"), people.ask(run, "For the CFO", by=["cfo"])
    people.answered(people.ask(run, "Done"), everybody["ana"])
    viewer = people.viewer("ana")
    wanted = [("mine", ""), ("all", "risk:high"), ("all", "-risk:high"), ("answered", ""), ("all", "no such words")]
    viewer.scope("see")
    with django_assert_num_queries(1):
        numbers = count_in_views(viewer, wanted, 100)
    assert numbers == [len(read_inbox(viewer, tab, text).items) for tab, text in wanted]
    assert numbers[1] == 1


def test_an_invalid_filter_has_no_count_and_spoils_no_other(run):
    people.ask(run, "One")
    viewer = people.viewer("ana")
    assert count_in_views(viewer, [("all", "risk:huge"), ("all", "")], 100) == [None, 1]
    assert count_in_views(viewer, [("all", "risk:huge")], 100) == [None]
    assert count_in_views(viewer, [], 100) == []


def test_a_count_stops_at_its_limit(run):
    for number in range(5):
        people.ask(run, f"q{number}")
    assert count_in_views(people.viewer("ana"), [("all", "")], 3) == [3]


def test_someone_who_may_see_nothing_counts_nothing(run, everybody):
    people.ask(run, "One")
    assert count_in_views(people.viewer("sam"), [("all", ""), ("mine", "")], 100) == [0, 0]

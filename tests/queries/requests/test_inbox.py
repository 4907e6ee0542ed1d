"""Tabs, filters and orders of the inbox: whose is what, and that counts, lists and the resolver agree."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Absence, HumanRequest, Presence, Reply
from tests import people
from tests.queries.test_queries import run as run
from wfdash.domain.errors import Invalid
from wfdash.queries.requests.inbox import (
    SORTS,
    count_all,
    count_in_views,
    count_similar,
    count_similar_shown,
    count_since,
    count_tabs,
    next_request,
    read_inbox,
    read_neighbours,
    tab_filter,
)
from wfdash.queries.requests.request import read_request
from wfdash.queries.runs.listing import open_requests_of
from wfdash.queries.search import RowExists
from wfdash.queries.unreadable import LARGEST_LISTED

NOW = timezone.now()


def shown(name: str, tab: str = "mine", text: str = "", sort: str = "age") -> list[str]:
    """Return the subjects a person's tab lists, and see that it counts as many."""
    viewer = people.viewer(name)
    rows = read_inbox(viewer, tab, text, sort=sort, limit=100).items
    assert count_tabs(viewer, text)[tab] == len(rows)
    return [row.subject for row in rows]


def said(request, user, verdict: str = "approve") -> Reply:
    return Reply.objects.create(
        id=ids.new_request_id(), request=request, by=user, via="page", verdict=verdict, stands="approved", at=NOW
    )


def test_what_another_has_taken_is_not_mine_but_my_group_s(run, everybody):
    people.ask(run, "free", by=["finance"])
    people.ask(run, "mine", assignee=everybody["ana"])
    people.ask(run, "ben's", by=["finance"], assignee=everybody["ben"])
    assert shown("ana") == ["free", "mine"]
    assert shown("ana", "groups") == ["free", "ben's"]
    assert shown("ana", "unassigned") == ["free"]
    assert shown("ana", "all") == ["free", "mine", "ben's"]


@pytest.mark.postgres
def test_postgresql_looks_up_the_run_of_a_request_and_hashes_not_all_of_a_person(everybody, postgres_alias):
    rows = HumanRequest.objects.filter(tab_filter(people.viewer("ana"), "mine")).query
    sql, _ = rows.get_compiler(postgres_alias).as_sql()
    assert sql.count("OFFSET 0)") == sql.count('FROM "checkpoints_run"') > 0


@pytest.mark.postgres
def test_postgresql_is_asked_of_each_row_only_for_rows_that_there_can_be(postgres_alias):
    rows = Reply.objects.values(counts=RowExists(HumanRequest.objects.none())).query
    assert "OFFSET" not in rows.get_compiler(postgres_alias).as_sql()[0]


def test_what_is_assigned_to_me_is_mine_though_it_is_addressed_to_others(run, everybody):
    people.ask(run, "given", by=["cfo"], assignee=everybody["ana"])
    people.ask(run, "never", by=["cfo"], not_by=["ana"], assignee=everybody["ana"])
    assert shown("ana") == ["given"]


def test_who_stands_in_sees_what_the_absent_would(run, everybody):
    people.ask(run, "for ana", by=["ana"])
    people.ask(run, "for finance", by=["finance"])
    people.ask(run, "ana has it", by=["ana"], assignee=everybody["ana"])
    people.ask(run, "not ana", by=["ana", "finance"], not_by=["ana"])
    people.ask(run, "not ben", by=["ana"], not_by=["ben"])
    assert shown("ben") == []
    hour = timedelta(hours=1)
    Absence.objects.create(user=everybody["ana"], delegate=everybody["ben"], since=NOW - hour, until=NOW + hour)
    assert shown("ben") == ["for ana", "for finance", "ana has it"]
    assert shown("ben", "groups") == ["for finance"]


def test_lists_and_the_resolver_agree_for_everybody(run, everybody):
    hour = timedelta(hours=1)
    Absence.objects.create(user=everybody["ana"], delegate=everybody["ben"], since=NOW - hour, until=NOW + hour)
    own = people.make_run(created_by=everybody["ana"])
    edited = people.make_run(created_by=everybody["otto"], requesters=["ana", "ben"])
    for asked in (run, own, edited):
        for by in ([], ["ana"], ["finance"], ["requester"], ["ben", "editors"]):
            for not_by in ([], ["ana"], ["requester"], ["ben", "requester"], ["finance"]):
                people.ask(asked, f"{asked.pk} {by} {not_by}", by=by, not_by=not_by)
    for name in people.ROLES:
        viewer = people.viewer(name)
        expected = [
            row.subject
            for row in read_inbox(people.viewer("adam"), "all", limit=200).items
            for request in [read_request(people.viewer("adam"), row.id)]
            if viewer.may("answer", row.workflow)
            and viewer.right_for(request.by, request.not_by, request.origin) is not None
        ]
        assert shown(name) == expected, name


def test_an_encrypted_card_that_is_too_large_for_lists_is_called_by_its_step(run, everybody, settings):
    settings.WFDASH_ENCRYPTION_KEYS = "a-secret-that-is-long-enough-to-be-one"
    people.ask(run, "Small")
    people.ask(run, card={"subject": "Large", "body": "x" * LARGEST_LISTED})
    assert sorted(shown("ana")) == ["Small", "review"]
    assert [one.subject for one in open_requests_of([run.id])[run.id]] == ["Small", "review"]


def test_a_name_is_found_as_it_is_written_and_only_then(run, everybody):
    tricky = ['fin"ance', "Füße", "back\\slash", 'x", "finance', "日本"]
    for name in tricky:
        Group.objects.create(name=name).user_set.add(everybody["ben"])
        people.ask(run, name, by=[name])
    assert shown("ana") == []
    assert shown("ben", "groups") == tricky


def test_who_has_voted_is_not_asked_again(run, everybody):
    vote = people.ask(run, "two needed", policy={"need": 2})
    reply = said(vote, everybody["ana"])
    assert shown("ana") == []
    assert shown("ana", "answered") == ["two needed"]
    assert shown("ben") == ["two needed"]
    Reply.objects.filter(pk=reply.pk).update(undone=NOW)
    assert shown("ana") == ["two needed"]
    assert shown("ana", "answered") == []


def test_what_is_decided_but_not_in_effect_is_not_open(run, everybody):
    people.ask(run, "settling", settles=NOW + timedelta(seconds=10))
    assert shown("ana") == shown("ana", "all") == []


def test_who_started_a_run_sees_what_they_are_asked_back(run, everybody):
    own = people.make_run(created_by=everybody["sam"])
    people.ask(own, "what is it for?", asked=NOW)
    people.ask(own, "nothing asked")
    people.ask(run, "another's", asked=NOW)
    assert shown("sam", "asked") == ["what is it for?"]
    assert shown("sam", "all") == []
    assert shown("otto", "asked") == ["another's"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("chair", ["blue chair"]),
        ('"blue chair"', ["blue chair"]),
        ("-chair", ["red table", "old lamp"]),
        ("risk:high", ["blue chair"]),
        ("risk:high,low", ["blue chair", "red table"]),
        ("risk:none", ["old lamp"]),
        ("-risk:none", ["blue chair", "red table"]),
        ("due:<4h", ["blue chair", "red table"]),
        ("due:>4h", []),
        ("due:overdue", ["red table"]),
        ("is:overdue", ["red table"]),
        ("due:none", ["old lamp"]),
        ("-due:none", ["blue chair", "red table"]),
        ("due:<2020-01-01", []),
        ("age:>2d", ["old lamp"]),
        ("age:<2d", ["blue chair", "red table"]),
        ("assignee:ana", ["red table"]),
        ("assignee:me", ["red table"]),
        ("assignee:none", ["blue chair", "old lamp"]),
        ("-assignee:me", ["blue chair", "old lamp"]),
        ("is:assigned", ["red table"]),
        ("by:finance", ["blue chair"]),
        ("by:me", ["blue chair"]),
        ("is:unread", ["blue chair", "red table"]),
        ("is:asked", ["old lamp"]),
        ("kind:approval step:review", ["blue chair", "red table", "old lamp"]),
        ("workflow:expense_batch", ["blue chair", "red table", "old lamp"]),
        ("workflow:exp*", ["blue chair", "red table", "old lamp"]),
        ("workflow:other", []),
        ("EXPENSE", ["blue chair", "red table", "old lamp"]),
    ],
)
def test_every_term_of_the_language_selects(run, everybody, text, found):
    now, hour = timezone.now(), timedelta(hours=1)
    people.ask(run, "blue chair", risk=3, due=now + hour, created=now - 3 * hour, by=["finance"])
    people.ask(run, "red table", risk=1, due=now - hour, created=now - 2 * hour, assignee=everybody["ana"])
    lamp = people.ask(run, "old lamp", created=now - timedelta(days=3), asked=now)
    Presence.objects.create(request=lamp, user=everybody["ana"], since=now, seen=now)
    assert sorted(shown("ana", text=text)) == sorted(found)


def test_a_filter_that_is_none_is_refused_not_ignored(run):
    for ask in (read_inbox, count_tabs):
        with pytest.raises(Invalid) as caught:
            ask(people.viewer("ana"), text="risk:huge")
        assert caught.value.errors[0]["loc"] == ["q", "risk:huge"]


@pytest.mark.parametrize("sort", SORTS)
def test_pages_join_without_gap_or_double_in_every_order(run, everybody, sort):
    for number in range(9):
        facts = {"due": people.THEN + timedelta(days=number % 3) if number % 2 else None, "risk": number % 4}
        people.ask(run, f"q{number}", created=people.THEN, step="abc"[number % 3], **facts)
    ana, seen, cursor = people.viewer("ana"), [], ""
    whole = [row.id for row in read_inbox(ana, sort=sort).items]
    while cursor or not seen:
        found = read_inbox(ana, sort=sort, cursor=cursor, limit=2)
        seen += [row.id for row in found.items]
        cursor = found.next
        if not cursor:
            break
    assert seen == whole
    assert len(set(seen)) == 9


def test_orders_put_first_what_is_meant(run):
    people.ask(run, "first asked")
    people.ask(run, "due first", due=people.THEN + timedelta(hours=1))
    people.ask(run, "risky", risk=3)
    assert shown("ana")[0] == "first asked"
    assert shown("ana", sort="due")[0] == "due first"
    assert shown("ana", sort="risk")[0] == "risky"


def test_the_next_one_is_found_though_the_answered_one_has_left(run, everybody):
    first, second, third = (people.ask(run, name) for name in ("one", "two", "three"))
    ana = people.viewer("ana")
    assert read_neighbours(ana, second.pk, "mine") == (first.pk, third.pk, 2)
    people.answered(second, everybody["ana"])
    assert [read_neighbours(ana, one.pk, "mine")[2] for one in (first, second, third)] == [1, 0, 2]
    assert next_request(ana, second.pk, "mine") == third.pk
    people.answered(third, everybody["ana"])
    assert next_request(ana, third.pk, "mine") == first.pk
    people.answered(first, everybody["ana"])
    assert next_request(ana, first.pk, "mine") == ""


def test_rows_say_who_has_them_open_and_what_is_new(run, everybody):
    seen, looked = people.ask(run, "seen"), people.ask(run, "looked at")
    Presence.objects.create(request=seen, user=everybody["ana"], since=NOW, seen=people.THEN)
    Presence.objects.create(request=looked, user=everybody["ben"], since=NOW, seen=timezone.now())
    rows = read_inbox(people.viewer("ana")).items
    assert [(row.subject, row.unread, row.here) for row in rows] == [("seen", False, ()), ("looked at", True, ("ben",))]


def test_alike_are_counted_where_there_are_several_and_none_is_of_high_risk(run):
    for number in range(4):
        people.ask(run, f"alike {number}", risk=number)
    people.ask(run, "another", step="other")
    ana = people.viewer("ana")
    rows = read_inbox(ana).items
    assert count_similar(ana, "mine", "", rows) == {(run.workflow, "review", "approval"): 3}
    assert count_similar_shown(rows) == {(run.workflow, "review", "approval"): 3}
    assert count_similar_shown(rows[:2]) == {}


def test_what_waits_is_counted_whatever_the_filter(run):
    people.ask(run, "chair"), people.ask(run, "table")
    counts, waiting = count_all(people.viewer("ana"), "chair")
    assert (counts["mine"], counts["all"], waiting) == (1, 1, 2)


def test_new_ones_are_counted_from_a_moment_on(run):
    people.ask(run, "old")
    people.ask(run, "new", created=timezone.now() + timedelta(minutes=1))
    assert count_since(people.viewer("ana"), "mine", "", timezone.now()) == 1


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

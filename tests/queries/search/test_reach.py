"""A filter that no index serves is looked for in part of a list, page by page, until all of it was looked through."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import AuditEntry, HumanRequest
from tests import people
from wfdash.queries.audit import read_entries
from wfdash.queries.requests.decisions import count_decisions, read_decisions

pytestmark = pytest.mark.django_db

AUDIT = import_module("wfdash.queries.audit")
DECISIONS = import_module("wfdash.queries.requests.decisions")
MANY = 12


def walked(read: Callable[[str], Any]) -> tuple[list[Any], list[Any]]:
    """Return all rows of a list, and how far the pages say they came."""
    rows, edges, cursor = [], [], ""
    for _ in range(3 * MANY):
        page = read(cursor)
        rows += page.items
        edges += [page.reached] if page.reached else []
        cursor = page.next
        if not cursor:
            break
    return rows, edges


@pytest.fixture
def entries(client: Client) -> None:
    # Signing in is an entry, too.
    client.force_login(people.make_people()["adam"])
    AuditEntry.objects.all().delete()
    for n in range(MANY):
        AuditEntry.objects.create(
            n=n + 1,
            at=people.THEN + timedelta(hours=n),
            actor=("ana", "otto")[n % 2],
            verb=("pause", "resume", "start")[n % 3],
            workflow=people.WORKFLOW,
            run="a" if n < MANY // 2 else "b",
        )


@pytest.mark.parametrize(
    ("text", "in_part"),
    [
        *[("verb:start", True), ("-verb:start", True), ("actor:ana verb:start", True), ("actor:ana,otto", False)],
        *[("nothing", True), ("run:a pause", True), ("-actor:ana", True), ("before:2020-01-01", True)],
        *[("", False), ("actor:ana", False), ("run:a actor:ana", False)],
    ],
)
def test_parts_of_the_audit_log_have_every_entry_once(
    entries: None, monkeypatch: Any, text: str, in_part: bool
) -> None:
    viewer = people.viewer("adam")
    whole, none = walked(lambda cursor: read_entries(viewer, text, cursor=cursor, limit=2))
    monkeypatch.setattr(AUDIT, "MAX_SCANNED_ENTRIES", 2)
    parts, edges = walked(lambda cursor: read_entries(viewer, text, cursor=cursor, limit=2))
    assert parts == whole
    assert (none, bool(edges)) == ([], in_part)
    assert edges == sorted(edges, reverse=True)


@pytest.fixture
def decided(db: None) -> None:
    everybody, run = people.make_people(), people.make_run()
    for n in range(MANY):
        request = people.ask(run, f"Pay {n}?", key=f"review:{n}")
        people.answered(request, everybody["ana"], ("approve", "reject", "edit")[n % 3])
        # Three of each moment.
        HumanRequest.objects.filter(pk=request.pk).update(answered=people.THEN + timedelta(hours=n // 3))


@pytest.mark.parametrize(
    ("text", "in_part"),
    [
        *[("outcome:rejected", True), ("is:reversed", True), ("-outcome:rejected", True), ("pay 7", True)],
        *[("outcome:deadline", True), ("answered:>1h outcome:approved", True), ("", False), ("answered:>1h", False)],
    ],
)
def test_parts_of_the_decisions_have_each_of_them_once(
    decided: None, monkeypatch: Any, text: str, in_part: bool
) -> None:
    viewer = people.viewer("vera")
    whole, none = walked(lambda cursor: read_decisions(viewer, text, cursor=cursor, limit=2))
    number = count_decisions(viewer, text)
    monkeypatch.setattr(DECISIONS, "MAX_SCANNED_DECISIONS", 2)
    parts, edges = walked(lambda cursor: read_decisions(viewer, text, cursor=cursor, limit=2))
    assert parts == whole
    assert (none, bool(edges)) == ([], in_part)
    assert number == (len(whole), False)
    assert count_decisions(viewer, text)[1]


def test_decisions_of_a_time_are_looked_through_from_its_end(decided: None, monkeypatch: Any) -> None:
    monkeypatch.setattr(DECISIONS, "MAX_SCANNED_DECISIONS", 3)
    text = f"answered:<={people.THEN + timedelta(hours=1, minutes=30):%Y-%m-%dT%H:%M} outcome:rejected"
    page = read_decisions(people.viewer("vera"), text)
    assert [row.answered for row in page.items] == [people.THEN + timedelta(hours=hour) for hour in (1, 0)]


@pytest.mark.parametrize(
    ("address", "what"), [("/audit/?q=nothing", "entries"), ("/decisions/?q=nothing", "decisions")]
)
def test_a_page_says_how_far_was_looked_and_looks_further(
    decided: None, entries: None, client: Client, monkeypatch: Any, address: str, what: str
) -> None:
    monkeypatch.setattr(AUDIT, "MAX_SCANNED_ENTRIES", 2)
    monkeypatch.setattr(DECISIONS, "MAX_SCANNED_DECISIONS", 2)
    page = client.get(address)
    assert f"Search older {what}" in page.content.decode()
    assert "No results" not in page.content.decode()
    last = client.get(page.context["further"]).content.decode()
    assert "Search older" not in last
    assert "No results" in last or "No decisions match" in last

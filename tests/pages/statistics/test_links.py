"""Every number of the statistics page leads to a list that has as many rows, in whatever zone it is read."""

from __future__ import annotations

import html
import math
import random
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from checkpoints.models import Reply, Run, RunFact
from tests import people
from tests.pages.statistics.test_statistics import decide
from tests.people import make_run
from wfdash.access.viewer import Viewer
from wfdash.queries.requests.decisions import count_decisions
from wfdash.queries.runs.filter_keys import FILTER
from wfdash.queries.runs.listing import count_found
from wfdash.queries.statistics import figures
from wfdash.queries.statistics.durations import slots_of
from wfdash.web.pages.site.list_page import error_term, term
from wfdash.worker import sweeps

BACK = datetime(2026, 10, 25, 15, 30, tzinfo=UTC)
"""The day on which clocks in Europe are set back."""
FORTH = datetime(2026, 3, 29, 15, 30, tzinfo=UTC)
ERRORS = ("TimeoutError", "lib.net.ConnectError", "Odd error, with blanks", '<lambda> "x"', "")
LINK = re.compile(r'<a [^>]*href="(?P<href>/(?:runs|decisions)/\?[^"]+)"[^>]*>\s*(?P<number>[0-9,]+)\s*</a>')
TABLE = re.compile(r'href="(\?[^"]*table=[^"]+)"')
SLOT = re.compile(r'<tr><th[^>]*><a href="(?P<href>[^"]+)">.*?</a></th>(?P<cells>.*?)</tr>')
COUNT = re.compile(r'<td class="number[^"]*">(?:<a [^>]*>)?([0-9,]+)<')

CASES = (
    ("Europe/Berlin", BACK, "?days=7"),
    ("Asia/Kathmandu", BACK, "?days=1"),
    ("America/Los_Angeles", FORTH, "?days=7&workflow=expense_batch"),
    ("Pacific/Auckland", FORTH, "?days=30"),
)
SAMPLE = 40
"""Links that are followed, of each sort."""


def month(now: datetime, someone: User) -> None:
    """Make runs and decisions at random times of a month, and at every midnight and hour that may be an edge."""
    chance = random.Random(7)
    Group.objects.get_or_create(name="legal, EU")
    hours = [now.replace(minute=0) - timedelta(hours=n) for n in (0, 13, 14, 15, 16, 17, 22, 23, 24, 39, 40, 41)]
    edges = [at + timedelta(microseconds=n) for at in hours for n in (-1, 0)]
    edges += [now - timedelta(seconds=chance.randrange(30 * 86_400)) for _ in range(20)]
    for at in edges:
        phase = chance.choice(("completed", "failed", "cancelled", "waiting"))
        ended = {"finished": at} if phase != "waiting" else {}
        workflow = chance.choice(("expense_batch", "publish_article"))
        run = make_run(workflow=workflow, phase=phase, created=at - timedelta(minutes=chance.randrange(90)), **ended)
        if phase == "failed" and (error := chance.choice(ERRORS)):
            fail(run, error)
        verdict = chance.choice(("approve", "edit", "reject", "escalate", "deadline"))
        by = chance.choice(([], ["legal, EU"], ["ana"], ["requester"], ["legal, EU", "ben"]))
        asked = decide(run, verdict, at=at, step=chance.choice(("review", "sign off")), by=by)
        if chance.random() < 0.2:
            given = {"via": "page", "verdict": "approve", "stands": "approved", "at": at, "undone": at}
            Reply.objects.create(id=asked.pk, request=asked, by=someone, **given)


def fail(run: Run, error: str) -> None:
    Run.objects.filter(pk=run.pk).update(error={"type": error, "message": "no"})
    for text in {error.lower(), error.rpartition(".")[2].lower()}:
        RunFact.objects.create(run=run, name="error", text=text, created=run.created)


def listed(viewer: Viewer, href: str) -> int:
    """Return how many rows the list at an address has."""
    link = urlsplit(html.unescape(href))
    text = dict(parse_qsl(link.query))["q"]
    if link.path == "/decisions/":
        return count_decisions(viewer, text)[0]
    number, more = count_found(viewer, text)
    assert not more
    return number


def page_in(zone: str, client: Client, query: str) -> str:
    client.cookies["wfdash_zone"] = zone
    return client.get(query if query.startswith("/") else f"/statistics/{query}").content.decode()


@pytest.mark.parametrize(("zone", "now", "query"), CASES, ids=[zone for zone, *_ in CASES])
def test_every_number_leads_to_a_list_with_as_many_rows(everybody, as_, monkeypatch, zone, now, query):
    monkeypatch.setattr(figures.timezone, "now", lambda: now)
    month(now, everybody["ana"])
    monkeypatch.setattr(sweeps, "database_now", lambda: now)
    # Of whole days the page shows what is added up.
    while sweeps.roll_up_decisions() < math.inf:
        pass
    page, viewer = page_in(zone, as_("otto"), query), people.viewer("otto")
    links = {(found["href"], int(found["number"].replace(",", ""))) for found in LINK.finditer(page)}
    tables = [
        page_in(zone, as_("otto"), html.unescape(at)) for at in dict.fromkeys(TABLE.findall(page)) if "-time" not in at
    ]
    cells = set().union(*({(one["href"], one["number"]) for one in LINK.finditer(table)} for table in tables))
    slots = {
        (slot["href"], sum(map(int, COUNT.findall(slot["cells"])[:5])))
        for table in tables
        for slot in SLOT.finditer(table)
    }
    for numbers in (links, {(href, int(number)) for href, number in cells}, slots):
        some = random.Random(1).sample(sorted(numbers), min(SAMPLE, len(numbers)))
        assert len(some) > 5
        assert [(href, number) for href, number in some if listed(viewer, href) != number] == []


def test_the_slots_of_a_zone_join_and_a_day_with_a_clock_set_back_has_25_hours():
    for zone, at, hours in (("Europe/Berlin", BACK, 25), ("Europe/Berlin", FORTH, 23), ("UTC", BACK, 24)):
        slots = slots_of(at, 7, ZoneInfo(zone))
        assert len(slots) == 7
        instants = [slot.since.timestamp() for slot in slots] + [slots[-1].until.timestamp()]
        lengths = [(end - start) / 3600 for start, end in pairwise(instants)]
        assert lengths == [24] * 6 + [hours]
        assert all(one.until == other.since for one, other in pairwise(slots))


def test_the_last_24_hours_are_whole_hours_of_the_zone_and_hold_now():
    slots = slots_of(BACK, 1, ZoneInfo("Asia/Kathmandu"))
    assert len(slots) == 24
    assert {slot.since.minute for slot in slots} == {0}
    assert slots[-1].since <= BACK < slots[-1].until


def test_hours_that_are_there_twice_have_names_of_their_own(everybody, as_, monkeypatch):
    monkeypatch.setattr(figures.timezone, "now", lambda: BACK)
    make_run(created=BACK)
    page = page_in("Europe/Berlin", as_("otto"), "?days=1")
    assert "2026-10-25 02:00 UTC+2" in page
    assert "2026-10-25 02:00 UTC+1" in page


@pytest.mark.parametrize("error", ["a b", "a,b", "<b>", 'say "x"', "lib.Error", ">=", ""])
def test_an_error_is_written_so_that_the_filter_reads_it(error):
    (found,) = FILTER.parse(error_term(error)).terms
    assert found.key == "error"
    assert found.sign == ""
    assert len(found.values) == 1


def test_a_value_without_blanks_needs_no_quotes():
    assert term("workflow", "expense_batch") == "workflow:expense_batch"
    assert term("step", "sign off") == 'step:"sign off"'


def test_the_page_of_a_workflow_sums_up_its_decisions_and_leads_to_them(everybody, as_):
    run = make_run()
    for verdict in ("approve", "edit", "reject", "deadline"):
        decide(run, verdict)
    decide(make_run(workflow="publish_article"), step="legal_review")
    page = as_("vera").get(f"/workflows/{people.WORKFLOW}/").content.decode()
    assert "4 decided, 50 % approved" in page
    assert "Legal review" not in page
    (href,) = re.findall(r'href="(/decisions/[^"]+)"', page)
    assert listed(people.viewer("vera"), href) == 4


def test_who_decided_is_told_as_the_audit_log_tells_it(everybody, as_):
    """By ``inspect``: who only reviews finds their own decisions, a viewer those of others."""
    asked = decide(make_run(), "reject")
    decide(make_run(workflow="payroll"))
    texts = ("by:me", "by:ana", "-by:ana")
    found = {name: [count_decisions(people.viewer(name), text)[0] for text in texts] for name in ("ana", "ben", "vera")}
    assert found == {"ana": [2, 0, 2], "ben": [0, 0, 2], "vera": [0, 2, 0]}
    link = "?q=answered%3A%3C7d+by%3Aana"
    assert [page_in("UTC", as_(name), "/decisions/").count(link) for name in ("ana", "ben", "vera")] == [2, 0, 2]
    Reply.objects.create(
        id=asked.pk, request=asked, by=everybody["ana"], via="page", verdict="reject", at=asked.answered
    )
    listed_of = {text: as_("ana").get(f"/?tab=answered&q=outcome:{text}").content for text in ("rejected", "approved")}
    assert [asked.pk.encode() in page for page in listed_of.values()] == [True, False]

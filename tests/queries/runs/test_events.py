"""Pages of events join without gap or double, whatever the filter and however much is looked at for one page."""

from __future__ import annotations

import random

import pytest

from checkpoints.models import Run
from tests import people
from wfdash.queries.runs import logs
from wfdash.queries.runs.logs import EventFilter, all_events, find_events

pytestmark = pytest.mark.django_db
FILTERS = [
    EventFilter(),
    EventFilter(kind="step"),
    EventFilter(kind="log", text="needle"),
    EventFilter(level="WARNING"),
    EventFilter(step="part"),
    EventFilter(text="NEEDLE"),
    EventFilter(kind="nothing"),
]


@pytest.fixture
def busy(db) -> Run:
    people.make_people()
    rnd, run = random.Random(4), people.make_run()
    for number in range(120):
        word = rnd.choice(["hay", "hay", "needle"])
        people.happen(
            run,
            rnd.choice(
                [
                    ("step.started", rnd.choice(["read", "part/a", "partly"]), {"activation": str(number)}),
                    ("log", "part/b", {"level": rnd.choice(["INFO", "WARNING", "ERROR"]), "message": word}),
                    ("custom", "read", {"name": "said", "data": word}),
                ]
            ),
        )
    return run


def older_pages(run: Run, wanted: EventFilter) -> list[int]:
    """Walk from the newest page to the oldest."""
    seqs: list[int] = []
    before = 0
    for _ in range(200):
        page = find_events(people.viewer("otto"), run.pk, wanted, before=before, limit=7)
        seqs = [*(event.seq for event in page.events), *seqs]
        before = page.older
        if not before:
            return seqs
    raise AssertionError("there is no end of pages")


def newer_pages(run: Run, wanted: EventFilter) -> list[int]:
    """Walk from the oldest page to the newest."""
    seqs: list[int] = []
    after = 0
    for _ in range(200):
        page = find_events(people.viewer("otto"), run.pk, wanted, after=after, limit=7)
        seqs += [event.seq for event in page.events]
        after = page.newer
        if not after:
            return seqs
    raise AssertionError("there is no end of pages")


@pytest.mark.parametrize("wanted", FILTERS, ids=repr)
@pytest.mark.parametrize("looked_at", [9, 10_000])
def test_pages_join_in_both_directions(wanted, looked_at, busy, monkeypatch):
    every = [event.seq for event in all_events(people.viewer("otto"), busy.pk, wanted)]
    monkeypatch.setattr(logs, "MAX_SCANNED", looked_at)
    monkeypatch.setattr(logs, "SCAN_BATCH", 5)
    assert older_pages(busy, wanted) == every
    assert newer_pages(busy, wanted) == every


def test_each_filter_finds_what_it_names(busy):
    viewer = people.viewer("otto")
    everything = list(all_events(viewer, busy.pk, EventFilter()))
    assert [event.seq for event in everything] == list(range(1, 121))
    loud = [event.seq for event in all_events(viewer, busy.pk, EventFilter(level="WARNING"))]
    assert loud == [event.seq for event in everything if event.data.get("level") in {"WARNING", "ERROR"}]
    part = {event.step for event in all_events(viewer, busy.pk, EventFilter(step="part"))}
    assert part == {"part/a", "part/b"}


def test_nothing_newer_than_what_was_asked_for_is_shown(busy):
    page = find_events(people.viewer("otto"), busy.pk, limit=5, top=40)
    assert [event.seq for event in page.events] == [36, 37, 38, 39, 40]

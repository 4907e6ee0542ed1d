"""Days of decisions that are added up show what the requests show, whatever happens to those afterwards."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models import Q

from checkpoints.models import Answer, HumanRequest, Reply
from checkpoints.models.operations import DecisionRollup
from tests.people import ask, make_run
from wfdash.actions import statistics
from wfdash.queries.statistics import gates
from wfdash.queries.statistics.durations import GROWTH, LEAST_SECONDS, Scope, slots_of
from wfdash.queries.statistics.gates import decisions_in
from wfdash.records.statistics import DecisionStatistics, DurationSummary
from wfdash.worker import sweeps

NOW = datetime(2026, 11, 20, 15, 20, tzinfo=UTC)
EVERY = Scope(mine=Q(pk__isnull=False), every=True)
SCOPES = (EVERY, Scope(mine=Q(workflow="order")), Scope(mine=Q(workflow__in=["expense", "order"])))
ZONES = (UTC, timezone(timedelta(hours=13)), timezone(timedelta(hours=5, minutes=30)))
WORKFLOWS = ("expense", "order", "payroll")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "database_now", lambda: NOW)


@pytest.fixture
def month(everybody: dict[str, User]) -> list[HumanRequest]:
    """DecisionStatistics of every sort, at any time of twelve days and at their edges."""
    chance = random.Random(5)
    Group.objects.get_or_create(name="finance")
    runs = {workflow: make_run(workflow=workflow) for workflow in WORKFLOWS}
    midnight = NOW.replace(hour=0, minute=0)
    times = [midnight - timedelta(days=n, microseconds=part) for n in range(8) for part in (0, 1)]
    times += [NOW - timedelta(seconds=chance.randrange(12 * 86_400)) for _ in range(70)]
    found = []
    for at in times:
        after = timedelta(seconds=chance.choice((0.2, 40, 4_000, 90_000)))
        step, by = chance.choice(("review", "sign")), chance.choice(([], ["finance"], ["ana", "requester"]))
        kind = chance.choice(("approval", "approval", "approval", "signal"))
        given = {"step": step, "by": by, "kind": kind, "created": at - after, "answered": at, "closed": at}
        found.append(ask(runs[chance.choice(WORKFLOWS)], closed_as="taken", **given))
    verdicts = {one.pk: chance.choice(("approve", "edit", "reject", "escalate", "deadline")) for one in found}
    Answer.objects.bulk_create(
        Answer(
            request=one,
            by=None if verdicts[one.pk] == "deadline" else everybody["ana"],
            verdict=verdicts[one.pk],
            value={},
            at=one.answered - timedelta(seconds=chance.choice((0, 10))),
        )
        for one in found
    )
    for one in chance.sample(found, 9):
        Reply.objects.create(
            id=f"u{one.pk}"[:36], request=one, verdict="approve", stands="approved", at=one.created, undone=one.created
        )
    for one in chance.sample(found, 9):
        ask(one.run, key=one.key, created=one.answered + timedelta(minutes=5), closed=NOW, closed_as="cancelled")
    return found


def make_all() -> int:
    days = 0
    while sweeps.roll_up_decisions() < math.inf:
        days += 1
    return days


def look(scope: Scope = EVERY, days: int = 7, zone: Any = UTC) -> DecisionStatistics:
    return decisions_in(scope, slots_of(NOW, days, zone))


def numbers(found: DecisionStatistics) -> Any:
    """Return all that is counted."""
    counts = {(gate.workflow, gate.step): (gate.counts, [one.count for one in gate.times]) for gate in found.gates}
    asked = {label: spread.count for label, spread in found.asked.items()}
    return list(counts), counts, asked, [one.count for one in found.times], found.more


def close(one: DurationSummary, other: DurationSummary) -> bool:
    """Return whether two summaries differ by less than a bucket of a histogram is wide."""
    pairs = ((one.p50, other.p50), (one.p95, other.p95), (one.mean, other.mean))
    # No bucket is below the least duration.
    known = ((max(a, LEAST_SECONDS), max(b, LEAST_SECONDS)) for a, b in pairs if a is not None and b is not None)
    return one.count == other.count and all(1 / GROWTH < a / b < GROWTH for a, b in known)


@pytest.fixture
def read_singly(monkeypatch: pytest.MonkeyPatch) -> Callable[..., DecisionStatistics]:
    def read(*args: Any) -> DecisionStatistics:
        with monkeypatch.context() as plain:
            plain.setattr(gates, "agreeing_days", lambda *_: {})
            return look(*args)

    return read


def test_pages_show_the_same_with_days_and_without(month, read_singly):
    assert make_all() == gates.KEPT_DAYS
    looks = [(scope, days, UTC) for scope in SCOPES for days in (1, 7)]
    looks += [(EVERY, 30, zone) for zone in ZONES] + [(SCOPES[2], 7, ZONES[1])]
    for one in looks:
        added, single = look(*one), read_singly(*one)
        assert numbers(added) == numbers(single)
        for gate, plain in zip(added.gates, single.gates, strict=True):
            assert close(gate.spread, plain.spread)
            assert all(map(close, gate.times, plain.times))
        assert all(close(added.asked[label], spread) for label, spread in single.asked.items())
    assert make_all() == 0


def test_of_days_that_are_added_up_no_decision_is_read(month, monkeypatch):
    make_all()
    read: list[tuple[datetime, datetime]] = []
    plain = gates.plain_decisions
    monkeypatch.setattr(
        gates,
        "plain_decisions",
        lambda mine, since, until, *more: read.append((since, until)) or plain(mine, since, until, *more),
    )
    look(EVERY, 30)
    assert read == [(NOW.replace(hour=0, minute=0), NOW.replace(hour=0, minute=0) + timedelta(days=1))]


def test_what_comes_late_or_is_removed_shows_at_once(month, read_singly):
    make_all()
    late = next(one for one in month if one.kind != "signal" and NOW - timedelta(days=5) < one.answered)
    HumanRequest.objects.filter(pk=late.pk).delete()
    assert numbers(look()) == numbers(read_singly())
    at = NOW - timedelta(days=2)
    added = ask(month[0].run, created=at, answered=at, closed=at, closed_as="taken")
    Answer.objects.create(request=added, by=User.objects.get(username="ana"), verdict="approve", value={}, at=at)
    assert numbers(look()) == numbers(read_singly())
    assert make_all() in {1, 2}
    assert numbers(look()) == numbers(read_singly())


def test_what_is_reversed_later_is_found_by_the_next_look(month, read_singly):
    make_all()
    one = HumanRequest.objects.filter(kind="approval", answered__lt=NOW - timedelta(days=2), replies=None).latest(
        "answered"
    )
    before = sum(gate.total(gates.REVERSED) for gate in look().gates)
    ask(one.run, key=one.key, created=NOW, closed=NOW, closed_as="cancelled")
    assert make_all() <= 1
    assert numbers(look()) == numbers(read_singly())
    assert before <= sum(gate.total(gates.REVERSED) for gate in look().gates)


def test_who_was_asked_follows_the_groups_there_are(month, read_singly):
    make_all()
    Group.objects.all().delete()
    assert "group:finance" not in look().asked
    assert numbers(look()) == numbers(read_singly())
    assert make_all() == gates.KEPT_DAYS
    assert numbers(look()) == numbers(read_singly())


def test_days_that_no_range_needs_are_forgotten(month):
    make_all()
    assert statistics.forget_decisions(NOW) == 0
    statistics.forget_decisions(NOW + timedelta(days=60))
    assert not DecisionRollup.objects.exists()

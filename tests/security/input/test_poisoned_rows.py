"""A row that cannot be dealt with is put aside, whatever a worker sweeps: those behind it get their turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.high_water_mark import HighWaterMark
from checkpoints.models import Event, HumanRequest, Notice, Reply, Run, Schedule, Signal, TallyMark, Webhook
from tests import people
from wfdash.actions import pacing, schedules, statistics
from wfdash.actions.pacing import SweepBackoff
from wfdash.actions.requests import announce, deadlines, finalize
from wfdash.actions.runs import lifecycle, migrate, search_index, signals
from wfdash.questions.policy import Policy
from wfdash.worker import outbox

pytestmark = pytest.mark.django_db
LONG_AGO = timezone.now() - timedelta(days=1)


def fail_for(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, keys: Sequence[str]) -> None:
    """Let a function of a module fail for these rows, as for content that no code expects."""
    works = getattr(module, name)

    def fails(*args: Any, **kwargs: Any) -> Any:
        if any({getattr(one, "pk", None), getattr(one, "run_id", None)} & set(keys) for one in args):
            raise RuntimeError("not foreseen")
        return works(*args, **kwargs)

    monkeypatch.setattr(module, name, fails)
    if module is deadlines:
        monkeypatch.setitem(deadlines.ACTS, "timeout", fails)


def reply_due(n: int) -> Reply:
    asked = people.ask(people.make_run())
    at = LONG_AGO + timedelta(minutes=n)
    HumanRequest.objects.filter(pk=asked.pk).update(settles=at)
    return Reply.objects.create(
        id=ids.new_request_id(),
        request=asked,
        via="page",
        value={},
        verdict="approve",
        stands="approved",
        at=at,
        settles=at,
    )


def alarm_due(n: int) -> HumanRequest:
    at, policy = LONG_AGO + timedelta(minutes=n), Policy(due="1h", on_timeout="reject")
    return people.ask(people.make_run(), policy=policy.stored(), created=at, due=at, alarm=at)


def unannounced(n: int) -> HumanRequest:
    return people.ask(people.make_run())


def abandoned(n: int) -> Run:
    return people.make_run(ending="otto")


def signal_kept(n: int) -> Signal:
    run = people.make_run()
    at = LONG_AGO + timedelta(minutes=n)
    card = {"subject": "Waits", "context": {"signal": "go"}}
    people.ask(run, kind="signal", key="signal:go:wait-1.0", card=card, answer_schema={}, created=at)
    return Signal.objects.create(id=ids.new_request_id(), run=run, name="go", value=1, at=at)


def unlisted(n: int) -> Run:
    return people.make_run(listed=False)


def unnoted(n: int) -> Run:
    return people.make_run(phase="failed", error={"type": "E", "message": "m"}, noted=False, listed=True)


def stuck(n: int) -> HumanRequest:
    return people.ask(people.make_run(), stuck="nobody", told=LONG_AGO)


def held(n: int) -> Run:
    return people.make_run(phase="paused", acted_by="", created=LONG_AGO - timedelta(minutes=n))


def letter_due(n: int) -> Notice:
    at = LONG_AGO + timedelta(minutes=n)
    facts = {"name": "h", "url": "https://x.example", "secret": "whsec_AA", "created": at}
    hook = Webhook.objects.get_or_create(id="hook", defaults=facts)[0]
    return Notice.objects.create(id=f"n{n}", kind="opened", channel="webhook", target=hook.pk, created=at, due=at)


def deliver() -> None:
    for bundle in outbox.due_bundles():
        outbox.deliver(bundle, {"webhook": lambda receiver, letters: None})


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One kind of work: what makes a row of it, the function that fails, the work, and whether a row was done."""

    make: Callable[[int], Any]
    breaks: tuple[Any, str]
    work: Callable[[], Any]
    done: Callable[[Any], bool]


def released(run: Run) -> bool:
    return Run.objects.filter(pk=run.pk, phase="ready").exists()


SWEEPS = {
    "replies": Sweep(
        make=reply_due,
        breaks=(finalize, "finalize_answer"),
        work=finalize.finalize_due,
        done=lambda row: is_answered(row.request),
    ),
    "alarms": Sweep(
        make=alarm_due, breaks=(deadlines, "_time_out"), work=deadlines.fire_alarms, done=lambda row: is_answered(row)
    ),
    "announcements": Sweep(
        make=unannounced,
        breaks=(announce, "_notify_reviewers"),
        work=announce.announce_opened,
        done=lambda row: HumanRequest.objects.filter(pk=row.pk, told__isnull=False).exists(),
    ),
    "endings": Sweep(
        make=abandoned,
        breaks=(lifecycle, "_end"),
        work=lifecycle.end_abandoned,
        done=lambda row: Run.objects.filter(pk=row.pk, phase="cancelled").exists(),
    ),
    "signals": Sweep(
        make=signal_kept,
        breaks=(signals, "validate_answer"),
        work=signals.match_waiting,
        done=lambda row: Signal.objects.filter(pk=row.pk, taken__isnull=False).exists(),
    ),
    "facts": Sweep(
        make=unlisted,
        breaks=(search_index, "_facts_of_run"),
        work=search_index.index_runs,
        done=lambda row: Run.objects.filter(pk=row.pk, listed=True).exists(),
    ),
    "failures": Sweep(
        make=unnoted,
        breaks=(search_index, "_decrypted_or_none"),
        work=search_index.index_failures,
        done=lambda row: Run.objects.filter(pk=row.pk, noted=True).exists(),
    ),
    "unanswerable": Sweep(
        make=stuck,
        breaks=(announce, "decidability_of"),
        work=announce.recheck_stuck,
        done=lambda row: HumanRequest.objects.filter(pk=row.pk, stuck="").exists(),
    ),
    "held runs": Sweep(make=held, breaks=(migrate, "_release"), work=migrate.release_held, done=released),
    "letters": Sweep(
        make=letter_due,
        breaks=(outbox, "_reason"),
        work=deliver,
        done=lambda row: Notice.objects.filter(pk=row.pk, sent__isnull=False).exists(),
    ),
}


def is_answered(request: HumanRequest) -> bool:
    return HumanRequest.objects.filter(pk=request.pk, answered__isnull=False).exists()


@pytest.fixture
def _all_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every workflow count as loaded, in the version of its runs."""
    people.make_people()
    monkeypatch.setattr(migrate.timemachine, "is_loaded", lambda workflow, version: True)


@pytest.mark.usefixtures("_all_loaded")
@pytest.mark.parametrize("name", SWEEPS)
def test_a_row_that_fails_is_put_aside_and_those_behind_it_are_done(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = SWEEPS[name]
    rows = [sweep.make(n) for n in range(4)]
    keys = [row.run_id if isinstance(row, Signal) else row.pk for row in rows]
    fail_for(monkeypatch, *sweep.breaks, keys[:2])
    caplog.set_level(logging.ERROR, "wfdash")
    for _ in range(3):
        sweep.work()
    assert [sweep.done(row) for row in rows[2:]] == [True, True]
    for key in keys[:2]:
        lines = [record for record in caplog.records if key in record.getMessage()]
        assert len(lines) == 1, "it is said once, not each time"


def test_a_schedule_that_fails_is_put_aside_and_those_behind_it_start(monkeypatch: pytest.MonkeyPatch) -> None:
    people.make_people()
    started: list[str] = []
    monkeypatch.setattr(schedules, "_fire", lambda schedule: bool(started.append(schedule.pk)) or True)
    fail_for(monkeypatch, schedules, "_fire", ["s0"])
    otto = people.viewer("otto").user
    for n in range(3):
        at = LONG_AGO + timedelta(minutes=n)
        facts = {"name": f"s{n}", "workflow": "x", "cron": "0 3 * * *", "zone": "UTC", "message": {}, "owner": otto}
        Schedule.objects.create(id=f"s{n}", next_at=at, created=at, updated=at, **facts)
    schedules.fire_schedules(limit=1)
    schedules.fire_schedules(limit=2)
    assert started == ["s1", "s2"]


def test_an_event_that_cannot_be_counted_is_left_out_of_the_figures(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = people.make_run()
    for n in range(5):
        people.happen(run, *people.step(f"s{n}", "started", "finished", ms=1))
    bad = Event.objects.filter(kind="step.finished").order_by("pk")[1].pk
    works = statistics.measure_events

    def measure(after: int, last: int, using: str) -> Any:
        if after < bad <= last:
            raise RuntimeError("not foreseen")
        return works(after, last, using)

    monkeypatch.setattr(statistics, "measure_events", measure)
    horizon = HighWaterMark()
    while statistics.count_events(horizon):
        continue
    assert TallyMark.objects.get().event == Event.objects.order_by("-pk")[0].pk
    counted = statistics.Tally.objects.filter(measure__contains="step", hour=statistics.ALL_TIME).values_list(
        "step", flat=True
    )
    assert {"s0", "s2", "s3", "s4"} <= set(counted)
    assert sum("left out of the figures" in record.getMessage() for record in caplog.records) == 1


def test_a_receiver_with_thousands_of_letters_hides_no_other() -> None:
    for n in range(5):
        letter_due(n)
    user = people.make_people()["ana"]
    now = timezone.now()
    Notice.objects.create(id="mail", kind="opened", channel="mail", user=user, created=now, due=now)
    assert [bundle.channel for bundle in outbox.due_bundles(limit=2)] == ["webhook", "mail"]


def test_a_database_that_is_away_is_no_fault_of_any_row() -> None:
    rows = SweepBackoff("Row %s failed")

    def fail(key: str) -> int:
        raise OperationalError("the server closed the connection unexpectedly")

    with pytest.raises(OperationalError):
        rows.run_each(["a", "b"], fail)
    assert rows.backed_off() == []


def test_a_row_that_was_put_aside_is_tried_again_less_and_less_often() -> None:
    now, tries = [0.0], list[float]()
    rows = SweepBackoff("Row %s failed", clock=lambda: now[0])

    def fail(key: str) -> int:
        tries.append(now[0])
        raise ValueError(key)

    for now[0] in map(float, range(0, 20_000, 10)):
        rows.run_each([key for key in ["a"] if key not in set(rows.backed_off())], fail)
    assert tries[:5] == [0, 60, 180, 420, 900]
    assert tries[-1] - tries[-2] == pacing.LAST


def test_no_more_rows_are_remembered_than_a_query_takes() -> None:
    rows = SweepBackoff("Row %s failed")
    rows.run_each([str(n) for n in range(pacing.MOST_ROWS + 10)], lambda key: 1 // 0)
    assert len(rows.backed_off()) == pacing.MOST_ROWS

"""Schedules on hand-set rows: each time starts one run, on the right person's behalf, however late."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.utils import timezone

from checkpoints.models import AuditEntry, Event, Grant, Run, RunFact, Schedule
from checkpoints.records import Phase
from tests.actions.schedules.test_manage import PLAN
from wfdash.access.viewer import Viewer
from wfdash.actions import schedules
from wfdash.actions.schedules import create_schedule, fire_schedules, next_firing, pause_schedule, resume_schedule
from wfdash.domain.cron import ALL, parse
from wfdash.engines import catalog
from wfdash.engines.catalog import TimeLimit
from wfdash.worker.serving import start_heartbeat, stop_heartbeat

Person = Callable[..., Viewer]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def daily(person: Person) -> Callable[..., Schedule]:
    """Make a schedule that was due that long ago, twelve hours away from now."""
    otto = person("otto", "operator")

    def make(ago: timedelta = timedelta(), **facts: object) -> Schedule:
        row = create_schedule(otto, "expense_batch", PLAN)
        cron = f"0 {(timezone.now().hour + 12) % 24} * * *"
        (due,) = parse(cron).until(timezone.now() - ago)
        for name, value in ({"cron": cron, "zone": "UTC", "next_at": due} | facts).items():
            setattr(row, name, value)
        row.save()
        return row

    return make


def again(schedule: Schedule) -> Schedule:
    return Schedule.objects.get(pk=schedule.pk)


def dues() -> list[datetime]:
    told = Event.objects.filter(kind="run.queued").order_by("run__created", "run_id").values_list("data", flat=True)
    return [datetime.fromisoformat(data["due"]) for data in told]


def test_a_time_that_has_come_starts_a_run_in_the_owner_s_name(daily) -> None:
    schedule = daily()
    assert fire_schedules() == 1
    run = Run.objects.get()
    assert (run.created_by, run.input, run.phase) == (schedule.owner, PLAN.message, Phase.READY)
    told = Event.objects.get(run=run).data
    assert told == {
        "by": "otto",
        "schedule": schedule.pk,
        "schedule_name": "Nightly",
        "due": schedule.next_at.isoformat(),
    }
    assert RunFact.objects.get(run=run, name="schedule").text == schedule.pk
    entry = AuditEntry.objects.last()
    assert (entry.verb, entry.actor, entry.right) == ("start", "otto", "schedule Nightly")
    after = again(schedule)
    assert (after.last_at, after.last_run) == (schedule.next_at, run.pk)
    assert after.next_at == schedule.next_at + DAY
    assert fire_schedules() == 0


def test_nothing_starts_before_its_time_nor_while_it_is_paused(daily, person: Person) -> None:
    schedule = daily(next_at=timezone.now() + HOUR)
    assert fire_schedules() == 0
    assert next_firing() == again(schedule).next_at
    pause_schedule(person("otto"), schedule.pk)
    assert next_firing() is None


@pytest.mark.parametrize(("missed", "expected"), [("skip", 0), ("once", 1), ("all", 6)])
def test_what_was_missed_is_left_out_or_made_up_for_as_it_says(daily, missed: str, expected: int) -> None:
    schedule = daily(5 * DAY, missed=missed)
    while fire_schedules():
        pass
    assert dues() == (parse(schedule.cron).until(timezone.now(), expected) if expected else [])
    assert again(schedule).next_at > timezone.now()


def test_of_very_many_missed_times_the_last_hundred_are_made_up_for(daily) -> None:
    schedule = daily(200 * DAY, missed="all")
    while fire_schedules():
        pass
    assert dues() == parse(schedule.cron).until(timezone.now(), ALL)


def test_a_little_late_is_not_missed(daily) -> None:
    daily(cron="* * * * *", missed="skip", next_at=timezone.now().replace(second=0, microsecond=0))
    assert fire_schedules() == 1
    assert Run.objects.count() == 1


def test_a_time_is_passed_over_while_the_last_run_is_open(daily) -> None:
    schedule = daily(2 * DAY, missed="all", overlap="skip")
    while fire_schedules():
        pass
    assert Run.objects.count() == 1
    after = again(schedule)
    assert after.passed_at > after.last_at
    Run.objects.update(phase=Phase.COMPLETED)
    Schedule.objects.update(next_at=after.passed_at)
    assert fire_schedules() == 1
    assert Run.objects.count() == 2


def test_it_stops_when_its_owner_may_not_start_runs_any_more(daily, person: Person) -> None:
    schedule = daily()
    Grant.objects.all().delete()
    assert fire_schedules() == 1
    after = again(schedule)
    assert after.next_at is None
    assert "otto cannot start this workflow" in after.problem
    assert not Run.objects.exists()
    entry = AuditEntry.objects.last()
    assert (entry.actor, entry.verb) == ("a schedule", "stop schedule")
    adam = person("adam", "admin")
    resume_schedule(adam, schedule.pk)
    Schedule.objects.update(next_at=timezone.now())
    fire_schedules()
    assert Run.objects.get().created_by == adam.user


def test_someone_who_left_starts_nothing(daily) -> None:
    schedule = daily()
    schedule.owner.is_active = False
    schedule.owner.save()
    fire_schedules()
    assert again(schedule).problem
    assert not Run.objects.exists()


def test_it_stops_when_its_input_does_not_fit_any_more(daily) -> None:
    schedule = daily(message={"claims": ""})
    fire_schedules()
    assert again(schedule).next_at is None
    assert "claims" in again(schedule).problem


def test_a_time_is_left_to_a_worker_that_has_the_workflow(daily, settings) -> None:
    schedule = daily()
    settings.WFDASH_APPS = []
    catalog.load.cache_clear()
    start_heartbeat("elsewhere", {schedule.workflow: "v1"})
    assert fire_schedules() == 0
    assert (again(schedule).next_at, again(schedule).problem) == (schedule.next_at, "")
    stop_heartbeat("elsewhere")
    assert fire_schedules() == 1
    assert "not loaded" in again(schedule).problem


def test_without_its_workflow_it_passes_over_the_time_and_goes_on(daily, settings) -> None:
    schedule = daily()
    settings.WFDASH_APPS = []
    catalog.load.cache_clear()
    assert fire_schedules() == 1
    after = again(schedule)
    assert after.next_at == schedule.next_at + DAY
    assert "not loaded" in after.problem
    settings.WFDASH_APPS = ["tests.pages.served"]
    catalog.load.cache_clear()
    Schedule.objects.update(next_at=timezone.now())
    fire_schedules()
    assert (again(schedule).problem, Run.objects.count()) == ("", 1)


class Mute(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(("error", "said"), [(RuntimeError("no"), "RuntimeError: no"), (Mute(), "Mute: ")])
def test_a_check_that_breaks_does_not_keep_the_others_from_starting(daily, monkeypatch, caplog, error, said) -> None:
    broken, _ = daily(name="broken", message={"claims": "boom"}, next_at=timezone.now() - 2 * DAY), daily()
    check = type(catalog.get("expense_batch").engine).check_input

    def explode(engine: object, definition: object, message: dict[str, str]) -> object:
        if message["claims"] == "boom":
            raise error
        return check(engine, definition, message)  # type: ignore[arg-type]

    monkeypatch.setattr(type(catalog.get("expense_batch").engine), "check_input", explode)
    assert fire_schedules() == 2
    assert Run.objects.count() == 1
    assert again(broken).problem == f"Its input could not be checked: {said}"


def test_a_check_that_hangs_does_not_keep_the_others_from_starting_and_begins_once(daily, monkeypatch, caplog) -> None:
    let_go, begun = threading.Event(), list[str]()
    hanging, fine = daily(name="hanging"), daily()
    real = schedules.checked_input

    def check(entry: catalog.Entry, message: object) -> object:
        if message == "hang":
            begun.append("check")
            let_go.wait(30)
        return real(entry, PLAN.message)

    monkeypatch.setattr(schedules, "checked_input", check)
    monkeypatch.setattr(schedules._checks, "seconds", 0.05)
    Schedule.objects.filter(pk=hanging.pk).update(message="hang")
    try:
        for _ in range(2):
            Schedule.objects.filter(pk=hanging.pk).update(next_at=fine.next_at)
            assert fire_schedules() >= 1
        assert "did not return within 0.05 s. It is in wait (" in again(hanging).problem
        assert begun == ["check"]
        assert [run.input for run in Run.objects.all()] == [PLAN.message]
        assert caplog.text.count("Could not check the input") == 2
    finally:
        let_go.set()


def test_many_checks_of_one_workflow_that_hang_do_not_add_up() -> None:
    let_go, limit, waited = threading.Event(), TimeLimit(0.5), list[float]()

    def hang() -> None:
        let_go.wait(30)

    try:
        for group, key in (("slow", "one"), ("slow", "two"), ("slow", "two"), ("other", "three")):
            began = time.monotonic()
            with pytest.raises(TimeoutError, match=r"It is in wait \("):
                limit.call(group, key, hang)
            waited.append(time.monotonic() - began)
        assert limit.call("slow", "four", lambda: 4) == 4
    finally:
        let_go.set()
    first, beside, again_at_once, another = waited
    assert first >= 0.5 > beside >= 0.05 > again_at_once
    assert another >= 0.5


def test_a_check_that_ends_the_process_ends_only_itself(daily, monkeypatch) -> None:
    leaving, fine = daily(name="leaving"), daily()
    real = schedules.checked_input

    def check(entry: catalog.Entry, message: object) -> object:
        if message == "leave":
            sys.exit("no licence")
        return real(entry, PLAN.message)

    monkeypatch.setattr(schedules, "checked_input", check)
    Schedule.objects.filter(pk=leaving.pk).update(message="leave")
    fire_schedules()
    assert "The workflow's code ended with SystemExit: no licence" in again(leaving).problem
    assert [run.input for run in Run.objects.all()] == [PLAN.message]
    assert again(fine).problem == ""


def test_a_zone_that_is_gone_stops_it(daily) -> None:
    schedule = daily(zone="Nowhere/Town")
    fire_schedules()
    assert "Unknown time zone" in again(schedule).problem


def test_a_crash_in_between_leaves_neither_half(daily, monkeypatch) -> None:
    schedule = daily()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("wfdash.actions.schedules.note_run", die)
        fire_schedules()
    assert not Run.objects.exists()
    assert again(schedule).next_at == schedule.next_at
    assert fire_schedules() == 1
    assert Run.objects.count() == 1


def test_what_someone_changed_in_the_meantime_is_not_fired_as_it_was(daily, person: Person, monkeypatch) -> None:
    schedule = daily()
    otto = person("otto")

    def pause_first(owner: object) -> Viewer:
        pause_schedule(otto, schedule.pk)
        return otto

    monkeypatch.setattr("wfdash.actions.schedules.viewer_for", pause_first)
    assert fire_schedules() == 0
    assert not Run.objects.exists()


def test_a_schedule_that_fired_since_it_was_found_is_left_alone(daily, monkeypatch) -> None:
    schedule = daily()
    fire_each = schedules._backoff.run_each
    monkeypatch.setattr(schedules._backoff, "run_each", lambda *found: (fire_each(*found), fire_each(*found)))
    assert fire_schedules() == (1, 0)
    assert Run.objects.count() == 1
    assert again(schedule).passed_at is None


@pytest.mark.django_db(transaction=True)
def test_of_many_who_sweep_at_once_one_starts_the_run(person: Person) -> None:
    otto = person("otto", "operator")
    schedule = create_schedule(otto, "expense_batch", PLAN)
    for minute in range(5):
        Schedule.objects.update(cron=f"{minute} 3 * * *", next_at=datetime(2026, 1, 1, tzinfo=UTC))
        assert sum(sweep_at_once(4)) == 1
    assert Run.objects.count() == 5
    assert again(schedule).next_at > timezone.now()


def sweep_at_once(count: int) -> list[int]:
    gate = threading.Barrier(count)

    def sweep(_: int) -> int:
        gate.wait()
        try:
            return fire_schedules()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(sweep, range(count)))

"""Verbs on schedules: who may, what is refused where, what is done once, and what stands in the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from checkpoints.models import AuditEntry, Event, Run, RunFact, Schedule
from wfdash.access.viewer import Viewer
from wfdash.actions.schedules import (
    SchedulePlan,
    change_schedule,
    create_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
    run_now,
)
from wfdash.domain.errors import Invalid, KeyReused, NotAllowed, NotFound, WrongState

Person = Callable[..., Viewer]
PLAN = SchedulePlan(name="Nightly", cron="0 3 * * *", zone="Europe/Berlin", message={"claims": "ana,taxi,30"})


@pytest.fixture
def otto(person: Person) -> Viewer:
    return person("otto", "operator")


@pytest.fixture
def made(otto: Viewer) -> Schedule:
    return create_schedule(otto, "expense_batch", PLAN)


def places(caught: pytest.ExceptionInfo[Invalid]) -> list[list[Any]]:
    return [problem["loc"] for problem in caught.value.errors]


def verbs() -> list[str]:
    return list(AuditEntry.objects.order_by("n").values_list("verb", flat=True))


def test_a_schedule_knows_its_next_time_and_whose_it_is(made: Schedule, otto: Viewer) -> None:
    made.refresh_from_db()
    assert made.owner == otto.user
    assert made.next_at > timezone.now()
    assert (made.name, made.message, made.missed, made.overlap) == ("Nightly", PLAN.message, "once", "allow")
    assert verbs() == ["create schedule"]
    assert AuditEntry.objects.get().facts["cron"] == "0 3 * * *"


def test_every_mistake_is_named_at_its_field_at_once(otto: Viewer) -> None:
    plan = SchedulePlan(name=" ", cron="61 * * * *", message={"limit": -1}, missed="never", overlap="?")
    with pytest.raises(Invalid) as caught:
        create_schedule(otto, "expense_batch", plan)
    fields = {place[0] for place in places(caught)}
    assert fields == {"name", "cron", "missed", "overlap", "message"}
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [({"zone": "Mars/Base"}, "zone"), ({"cron": "0 0 30 2 *"}, "cron"), ({"name": "x" * 101}, "name")],
)
def test_what_never_fires_or_is_nowhere_is_refused(otto: Viewer, change: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        create_schedule(otto, "expense_batch", replace(PLAN, **change))
    assert places(caught) == [[field]]


def test_two_schedules_of_a_workflow_have_two_names(made: Schedule, otto: Viewer) -> None:
    with pytest.raises(Invalid) as caught:
        create_schedule(otto, "expense_batch", PLAN)
    assert places(caught) == [["name"]]


def test_the_same_key_makes_one_schedule_and_another_command_under_it_is_refused(otto: Viewer) -> None:
    first, again = (create_schedule(otto, "expense_batch", PLAN, key="k") for _ in range(2))
    assert first.pk == again.pk
    with pytest.raises(KeyReused):
        create_schedule(otto, "expense_batch", replace(PLAN, name="Other"), key="k")
    assert verbs() == ["create schedule"]


@pytest.mark.parametrize(("role", "error"), [("viewer", NotAllowed), ("reviewer", NotAllowed), (None, NotFound)])
def test_schedules_take_the_right_to_start(made: Schedule, person: Person, role: str | None, error) -> None:
    vera = person("vera", role)
    attempts = (
        lambda: create_schedule(vera, "expense_batch", PLAN),
        lambda: change_schedule(vera, made.pk, PLAN),
        lambda: pause_schedule(vera, made.pk),
        lambda: resume_schedule(vera, made.pk),
        lambda: run_now(vera, made.pk),
        lambda: delete_schedule(vera, made.pk),
    )
    for attempt in attempts:
        with pytest.raises(error):
            attempt()
    assert not Run.objects.exists()


def test_who_changes_a_schedule_takes_it_over(made: Schedule, person: Person) -> None:
    adam = person("adam", "admin")
    changed = change_schedule(adam, made.pk, replace(PLAN, cron="0 4 * * *"))
    changed.refresh_from_db()
    assert (changed.owner, changed.cron) == (adam.user, "0 4 * * *")
    assert changed.next_at != made.next_at
    assert AuditEntry.objects.last().facts["before"] == {"cron": "0 3 * * *", "zone": "Europe/Berlin"}


def test_a_paused_schedule_has_no_next_time_until_it_is_resumed(made: Schedule, person: Person, otto: Viewer) -> None:
    assert pause_schedule(otto, made.pk).next_at is None
    with pytest.raises(WrongState, match="already paused"):
        pause_schedule(otto, made.pk)
    assert change_schedule(otto, made.pk, replace(PLAN, name="Renamed")).next_at is None
    adam = person("adam", "admin")
    resumed = resume_schedule(adam, made.pk, key="again")
    assert resumed.next_at > timezone.now()
    assert resumed.owner == adam.user
    assert resume_schedule(adam, made.pk, key="again").pk == made.pk
    with pytest.raises(WrongState, match="not paused"):
        resume_schedule(adam, made.pk)
    assert verbs() == ["create schedule", "pause schedule", "change schedule", "resume schedule"]


def test_a_schedule_that_stopped_by_itself_can_be_resumed(made: Schedule, otto: Viewer) -> None:
    Schedule.objects.update(next_at=None, problem="Otto may not")
    resumed = resume_schedule(otto, made.pk)
    assert (resumed.problem, resumed.next_at is None) == ("", False)


def test_run_now_starts_one_run_and_leaves_the_times_alone(made: Schedule, person: Person) -> None:
    adam = person("adam", "admin")
    run = run_now(adam, made.pk, key="now")
    assert run_now(adam, made.pk, key="now").pk == run.pk
    assert (run.created_by, run.input) == (adam.user, PLAN.message)
    told = Event.objects.get(run=run, kind="run.queued").data
    assert told == {"by": "adam", "schedule": made.pk, "schedule_name": "Nightly"}
    assert RunFact.objects.get(run=run, name="schedule").text == made.pk
    after = Schedule.objects.get()
    assert (after.next_at, after.last_at, after.last_run) == (made.next_at, None, run.pk)


def test_a_deleted_schedule_is_gone_and_its_runs_stay(made: Schedule, otto: Viewer) -> None:
    run = run_now(otto, made.pk)
    delete_schedule(otto, made.pk, key="gone")
    delete_schedule(otto, made.pk, key="gone")
    assert not Schedule.objects.exists()
    assert Run.objects.filter(pk=run.pk).exists()
    with pytest.raises(NotFound):
        pause_schedule(otto, made.pk)
    assert verbs()[-1] == "delete schedule"


def test_a_schedule_is_found_by_those_who_see_its_workflow_alone(made: Schedule, person: Person) -> None:
    stranger = person("stranger", "admin", workflow="other")
    with pytest.raises(NotFound):
        run_now(stranger, made.pk)
    with pytest.raises(NotFound):
        create_schedule(stranger, "expense_batch", PLAN)
    assert made.next_at < timezone.now() + timedelta(days=2)

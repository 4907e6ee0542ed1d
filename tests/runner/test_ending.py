from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import AuditEntry, Claim, Event, HumanRequest, Run
from tests.runner.conftest import phase_of, reaches, until
from wfdash import desk, nudge
from wfdash.desk.ending import end_abandoned
from wfdash.errors import WrongState
from wfdash.workflow import Context, Workflow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


class Stage:
    """Two steps: the first waits until it is let go."""

    def __init__(self, *, once: bool = False) -> None:
        self.entered, self.let_go, self.second = threading.Event(), threading.Event(), threading.Event()
        self.workflow = Workflow("two")

        async def wait() -> str:
            self.entered.set()
            while not self.let_go.is_set():
                await asyncio.sleep(0.01)
            return "charged"

        @self.workflow.step(start=True)
        async def charge(message: int, ctx: Context) -> str:
            return await ctx.call(wait, name="bank", once=True) if once else await wait()

        @self.workflow.step(after=charge)
        async def ship(message: str) -> str:
            self.second.set()
            return message


@pytest.fixture
def stage(serve, start_worker, otto):
    def begin(**said) -> tuple[Stage, Run]:
        made = Stage(**said)
        serve(made.workflow)
        start_worker()
        run = desk.start_run(otto, "two", 1)
        assert made.entered.wait(10)
        return made, run

    return begin


def last(run: Run, kind: str) -> dict:
    return Event.objects.filter(run=run, kind=kind).order_by("-seq").first().data


def test_cancelling_names_the_step_that_it_cut_off(stage, otto) -> None:
    made, run = stage()
    desk.cancel_run(otto, run.id)
    assert last(run, "run.cancelled") == {"by": "otto", "fenced": ["charge"]}
    assert AuditEntry.objects.get(verb="cancel").facts["fenced"] == ["charge"]
    made.let_go.set()


def test_cancelling_names_a_call_of_which_nobody_knows_whether_it_happened(stage, otto) -> None:
    made, run = stage(once=True)
    until(lambda: Event.objects.filter(run=run, kind="call.intended").exists())
    desk.cancel_run(otto, run.id)
    assert last(run, "run.cancelled") == {"by": "otto", "fenced": ["charge"], "unsure": ["bank"]}
    made.let_go.set()


def test_a_run_that_is_to_end_after_its_step_keeps_the_step_and_starts_no_other(stage, otto) -> None:
    made, run = stage()
    desk.cancel_run(otto, run.id, after_step=True)
    assert (phase_of(run), last(run, "run.ending")) == ("ready", {"by": "otto"})
    made.let_go.set()
    until(reaches(run, "cancelled"))
    kinds = list(Event.objects.filter(run=run).order_by("seq").values_list("kind", "step"))
    assert ("step.finished", "charge") in kinds
    assert last(run, "run.cancelled") == {"by": "otto", "after": "charge"}
    assert not made.second.is_set()
    row = Run.objects.get(pk=run.id)
    assert (row.ending, row.acted_by, row.n) == ("", "otto", 2)


def test_it_ends_there_even_if_the_bell_was_lost(stage, otto, monkeypatch) -> None:
    made, run = stage()
    ring = nudge.runs_due.ring
    monkeypatch.setattr(nudge.runs_due, "ring", lambda _: None)
    desk.cancel_run(otto, run.id, after_step=True)
    monkeypatch.setattr(nudge.runs_due, "ring", ring)
    end_abandoned()
    made.let_go.set()
    until(reaches(run, "cancelled"))
    assert not made.second.is_set()


def test_asking_twice_is_refused_and_cancelling_at_once_is_still_possible(stage, otto) -> None:
    made, run = stage()
    desk.cancel_run(otto, run.id, after_step=True)
    with pytest.raises(WrongState, match="asked for that already"):
        desk.cancel_run(otto, run.id, after_step=True)
    assert desk.cancel_run(otto, run.id).phase == "cancelled"
    made.let_go.set()


def test_pausing_instead_takes_the_wish_back(stage, otto) -> None:
    made, run = stage()
    desk.cancel_run(otto, run.id, after_step=True)
    desk.pause_run(otto, run.id)
    made.let_go.set()
    desk.resume_run(otto, run.id)
    until(reaches(run, "completed"))
    assert made.second.is_set()


@pytest.mark.parametrize("phase", ["waiting", "ready"])
def test_where_nothing_runs_after_the_step_is_at_once(otto, phase) -> None:
    run = Run.objects.create(
        id="r", family="r", workflow="two", phase=phase, created=timezone.now(), updated=timezone.now()
    )
    HumanRequest.objects.create(id="q", run=run, key="k", workflow="two", step="s", kind="form", created=run.created)
    assert desk.cancel_run(otto, run.id, after_step=True).phase == "cancelled"
    assert HumanRequest.objects.get().closed_as == "cancelled"


def test_a_run_whose_worker_died_before_the_step_ended_is_cancelled_by_the_sweep(otto) -> None:
    now = timezone.now()
    run = Run.objects.create(id="r", family="r", workflow="two", created=now, updated=now)
    claim = Claim.objects.create(run=run, token="t", worker="w", epoch=0, expires=now + timedelta(minutes=1))
    desk.cancel_run(otto, run.id, after_step=True)
    assert end_abandoned() == 0
    Claim.objects.filter(pk=claim.pk).update(expires=now - timedelta(minutes=1))
    assert end_abandoned() == 1
    assert (phase_of(run), Claim.objects.count()) == ("cancelled", 0)

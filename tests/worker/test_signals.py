from __future__ import annotations

import pytest

from checkpoints.models import Checkpoint, Event, HumanRequest, Run, Signal
from tests.worker.conftest import reaches, until
from tests.workflow.world import flow
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.runs.lifecycle import start_run
from wfdash.actions.runs.signals import send_signal
from wfdash.worker.drive import ClaimedRecorder
from wfdash.workflow import Context

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


@pytest.fixture
def receiver(serve) -> None:
    async def wait(count: int, ctx: Context) -> list[int]:
        return [await ctx.receive("letter", int) for _ in range(count)]

    async def done(letters: list[int]) -> int:
        return sum(letters)

    serve(flow(wait, done, name="post"))


def test_a_parked_run_goes_on_with_the_signal_that_is_sent(receiver, start_worker, otto) -> None:
    start_worker()
    run = start_run(otto, "post", 1)
    until(reaches(run, "waiting"))
    assert send_signal(otto, run.id, "letter", 7).taken
    until(reaches(run, "completed"))
    assert Run.objects.get(pk=run.pk).output == 7


def test_signals_that_came_before_the_step_are_received_as_soon_as_it_waits(
    receiver, start_worker, otto, monkeypatch
) -> None:
    swept = []
    monkeypatch.setattr("wfdash.actions.runs.signals.match_waiting", lambda limit=0: swept.append(1) or 0)
    run = start_run(otto, "post", 3)
    for number in (1, 2, 4):
        assert send_signal(otto, run.id, "letter", number).taken is None
    start_worker()
    until(reaches(run, "completed"))
    assert Run.objects.get(pk=run.pk).output == 7


def test_if_the_worker_dies_before_it_has_looked_the_sweep_brings_them_together(
    receiver, start_worker, otto, monkeypatch
) -> None:
    async def die(self) -> None:
        return None

    monkeypatch.setattr(ClaimedRecorder, "_match_signals", die)
    run = start_run(otto, "post", 1)
    send_signal(otto, run.id, "letter", 7)
    start_worker()
    until(reaches(run, "completed"))


def test_after_a_restore_a_received_signal_is_offered_and_not_received_again_by_itself(
    receiver, start_worker, otto
) -> None:
    start_worker()
    run = start_run(otto, "post", 1)
    until(reaches(run, "waiting"))
    waiting = Checkpoint.objects.filter(run=run).order_by("-n").first()
    send_signal(otto, run.id, "letter", 7)
    until(reaches(run, "completed"))
    restore_run(otto, run.id, waiting.id)
    until(reaches(run, "waiting"))
    request = HumanRequest.objects.get(run=run, closed=None)
    assert (request.kind, request.answered) == ("signal", None)
    assert (request.suggestion["value"], request.suggestion["by"]) == (7, "otto")
    send_signal(otto, run.id, "letter", 8)
    until(reaches(run, "completed"))
    assert Run.objects.get(pk=run.pk).output == 8
    assert Event.objects.filter(run=run, kind="signal.received").count() == 2


def test_a_fork_waits_for_signals_of_its_own(receiver, start_worker, otto) -> None:
    start_worker()
    run = start_run(otto, "post", 1)
    until(reaches(run, "waiting"))
    send_signal(otto, run.id, "other", 1)
    fork = fork_run(otto, run.id, Checkpoint.objects.filter(run=run).order_by("-n").first().id)
    until(reaches(fork, "waiting"))
    assert not Signal.objects.filter(run=fork).exists()
    send_signal(otto, fork.id, "letter", 5)
    until(reaches(fork, "completed"))
    assert Run.objects.get(pk=run.pk).phase == "waiting"

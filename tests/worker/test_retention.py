from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from checkpoints import models
from checkpoints.config import CheckpointConfig
from checkpoints.models import Run
from checkpoints.records import Phase, Request
from tests.worker.conftest import reaches, until
from tests.worker.script import checkpoint_after, moved
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import cancel_run, start_run
from wfdash.contract import Finished, Resume, Waiting
from wfdash.worker import worker as retention

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

STEPS = 12
QUESTION = Request(key="q:0", step="ask", card={"subject": "Go on?"}, answer_schema={"type": "boolean"})


async def take_steps(given, recorder):
    """Take 11 steps, ask, and end at the twelfth."""
    if isinstance(given, Resume) and given.answers:
        end = checkpoint_after(given, "done")
        await recorder.commit(moved(end, "run.completed", Phase.COMPLETED, output="done"))
        return Finished(output="done", checkpoint=end)
    last = given
    for n in range(1, STEPS - 1):
        last = checkpoint_after(last, n)
        await recorder.commit(moved(last))
    asked = checkpoint_after(last, "asked", QUESTION)
    await recorder.commit(moved(asked, "request.opened", Phase.WAITING).model_copy(update={"opened": (QUESTION,)}))
    return Waiting(requests=(QUESTION,), checkpoint=asked)


def kept(run: Run) -> list[int]:
    return list(models.Checkpoint.objects.filter(run=run).order_by("n").values_list("n", flat=True))


def answer(otto, run: Run) -> None:
    answer_request(otto, models.HumanRequest.objects.get(run=run, closed=None).id, True)


def started(otto, define, start_worker) -> Run:
    """Return a run that waits after 11 steps, with a worker that goes on."""
    define(take_steps)
    start_worker()
    run = start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    return run


def test_an_open_run_keeps_everything_and_an_ended_one_what_the_policy_says(
    otto, define, start_worker, settings
) -> None:
    settings.WFDASH_RETENTION = CheckpointConfig(keep=3, while_open="keep")
    run = started(otto, define, start_worker)
    assert kept(run) == list(range(1, STEPS))
    answer(otto, run)
    until(lambda: kept(run) == [10, 11, 12])


def test_a_long_run_is_pruned_while_it_goes_on(otto, define, start_worker, settings, monkeypatch) -> None:
    settings.WFDASH_RETENTION = CheckpointConfig(keep=2)
    monkeypatch.setattr(retention, "PRUNE_EVERY", 5)
    run = started(otto, define, start_worker)
    until(lambda: kept(run) == [10, 11])
    answer(otto, run)
    until(lambda: kept(run) == [11, 12])


def test_a_run_that_is_cancelled_while_it_waits_is_pruned_too(
    otto, define, start_worker, settings, monkeypatch
) -> None:
    settings.WFDASH_RETENTION = CheckpointConfig(keep=3, while_open="keep")
    monkeypatch.setattr(retention, "CANCELLED_SECONDS", 0.05)
    run, other = started(otto, define, start_worker), start_run(otto, "script", 2)
    until(reaches(other, "waiting"))
    cancel_run(otto, run.pk)
    until(lambda: kept(run) == [9, 10, 11])
    assert kept(other) == list(range(1, STEPS))


def test_what_was_cancelled_while_no_one_drove_is_pruned_by_the_next_worker(
    otto, define, start_worker, settings
) -> None:
    settings.WFDASH_RETENTION = CheckpointConfig(keep=3, while_open="keep")
    define(take_steps)
    worker = start_worker()
    run = start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    worker.stop()
    cancel_run(otto, run.pk)
    start_worker()
    until(lambda: kept(run) == [9, 10, 11])


def test_the_policy_says_which_steps_are_saved(otto, define, start_worker, settings) -> None:
    settings.WFDASH_RETENTION = CheckpointConfig(when=4)
    run = started(otto, define, start_worker)
    assert kept(run) == [1, 5, 9, 11]
    answer(otto, run)
    until(reaches(run, "completed"))


@pytest.fixture
def prune() -> Callable[..., str]:
    """Call the command and return what it printed."""

    def call(*args: str, **options: object) -> str:
        out = StringIO()
        call_command("prune", *args, stdout=out, **options)
        return out.getvalue()

    return call


def test_a_dry_run_says_what_goes_and_why_and_a_real_one_removes_it(
    otto, define, start_worker, settings, prune
) -> None:
    run = started(otto, define, start_worker)
    answer(otto, run)
    until(reaches(run, "completed"))
    settings.WFDASH_RETENTION = CheckpointConfig(keep=2, while_open="keep")
    said = prune("--dry-run")
    assert f"run {run.id}: 2 stay, 10 go" in said
    assert len(re.findall(r"  remove \d+ \(\S+\): not among the newest 2", said)) == 10
    assert "10 checkpoints would be removed" in said
    assert len(kept(run)) == STEPS
    assert "keep 12 (step): the newest" in prune(run.id, "--dry-run", verbosity=2)
    assert "10 checkpoints removed" in prune()
    assert kept(run) == [11, 12]
    assert prune() == "0 checkpoints removed\n"


def test_a_run_that_does_not_exist_is_named(prune) -> None:
    with pytest.raises(CommandError, match="no such run: nowhere"):
        prune("nowhere")

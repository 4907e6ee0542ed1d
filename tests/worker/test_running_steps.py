"""A step of an engine of another kind: people see it while it runs, and then how long it took."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from checkpoints.records import Commit, Phase, Reason, Standing
from tests.worker.conftest import reaches, until
from tests.worker.script import checkpoint_after
from wfdash.actions.runs.lifecycle import start_run
from wfdash.contract import Finished
from wfdash.engines.running_steps import RunningSteps
from wfdash.queries.runs.steps import read_activations
from wfdash.queries.step_states import step_transitions
from wfdash.web.pages.runs.timeline import timeline
from wfdash.web.pages.ui.times import duration

STEP = 0.15
"""Seconds that the step takes."""


@pytest.mark.alone
def test_a_step_is_seen_running_within_300_ms_and_everywhere_as_long_as_it_took(otto, define, start_worker) -> None:
    began, may_end, held = threading.Event(), threading.Event(), []

    async def play(given, recorder):
        async with RunningSteps(recorder, given.run) as steps:
            steps.started("work-1", "work")
            start = time.monotonic()
            began.set()
            while not may_end.is_set() or time.monotonic() - start < STEP:
                await asyncio.sleep(0.005)
            held.append(time.monotonic() - start)
            steps.ended("work-1")
            checkpoint = checkpoint_after(given, 1).model_copy(update={"reason": Reason.END})
            standing = Standing(phase=Phase.COMPLETED, output=1)
            await steps.commit(Commit(run=given.run, checkpoint=checkpoint, standing=standing))
        return Finished(output=1, checkpoint=checkpoint)

    define(play)
    start_worker()
    run = start_run(otto, "script", None)
    assert began.wait(10)
    start = time.monotonic()
    until(lambda: read_activations(otto, run.pk, ["work"], state="running").total, within=5)
    seen = time.monotonic() - start
    may_end.set()
    until(reaches(run, "completed"))
    assert seen < 0.3

    (one,) = read_activations(otto, run.pk, ["work"]).rows
    right = timedelta(seconds=held[0] - 0.03), timedelta(seconds=held[0] + 0.03)
    assert right[0] <= one.lasted <= right[1]
    client = Client()
    client.force_login(otto.user)
    (shown,) = client.get(f"/api/v1/runs/{run.pk}/steps", {"step": "work"}).json()["items"]
    took = datetime.fromisoformat(shown["ended"]) - datetime.fromisoformat(shown["began"])
    assert (shown["state"], right[0] <= took <= right[1]) == ("done", True)
    drawn = timeline(step_transitions(run.pk), datetime.now(UTC))
    assert [(row.step, row.busy) for row in drawn.rows] == [("work", duration(one.lasted))]

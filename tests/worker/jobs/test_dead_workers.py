from __future__ import annotations

import asyncio
import os
import subprocess
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints import claims, ids
from checkpoints.claims import is_gone, process_name, start_time
from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import Claim, Event, WorkerBeat
from tests.worker.conftest import reaches, until
from wfdash.actions.runs.lifecycle import start_run
from wfdash.worker import serving as heartbeat
from wfdash.worker.serving import Serving, start_heartbeat

pytestmark = pytest.mark.django_db(transaction=True)


def name_of_an_ended_worker() -> str:
    """Return the name that a worker had which was killed."""
    with subprocess.Popen(["sleep", "60"]) as child:
        started = start_time(child.pid)
        child.kill()
    ours = f":{os.getpid()}:"
    host, _, place = process_name().partition(ours)
    return f"{host}:{child.pid}:{place.partition('-')[0]}-{started}:abcdef"


def test_only_workers_that_have_certainly_ended_are_found() -> None:
    dead = name_of_an_ended_worker()
    living = [f"{process_name()}abcdef", "elsewhere:1:0123456789ab-5:abcdef", "home-0123:17:abcdef"]
    within_a_server = f"home-0123:{dead}"
    for name in (dead, within_a_server, *living, f"home-0123:{process_name()}abcdef"):
        start_heartbeat(name)
    serving = Serving(living[0])
    serving.look()
    assert sorted(serving.ended()) == sorted([dead, within_a_server])
    assert serving.may_others_live()
    serving.forget(dead)
    assert serving.ended() == [within_a_server]
    for ended in ([within_a_server], []):
        serving.hear(ended, [])
        assert not serving.may_others_live(), "so their runs need no rest"


async def test_others_are_looked_at_each_second_until_there_are_known_to_be_none(monkeypatch) -> None:
    serving, stopping, pauses = Serving("me"), asyncio.Event(), list[float]()
    found: list[list[str]] = [["elsewhere:1:0123456789ab-5:abcdef"], []]

    async def waited(stopping: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        if found:
            serving.hear(found.pop(0), [])
        else:
            stopping.set()

    monkeypatch.setattr(heartbeat, "waited", waited)
    await heartbeat.end_dead_until(stopping, Unused(), serving)
    assert pauses == [1.0, 1.0, 5.0]


class Unused(DatabaseStorage):
    async def expire_claims(self, *, worker_prefix: str) -> None:
        raise AssertionError("no worker has ended")


def test_a_process_that_the_machine_hides_counts_as_alive(tmp_path, monkeypatch) -> None:
    running, dead = process_name(), name_of_an_ended_worker()
    monkeypatch.setattr(claims, "PROC", tmp_path)
    assert not is_gone(f"{running}abcdef")
    assert is_gone(dead)


@pytest.mark.process
def test_a_run_of_a_killed_worker_continues_before_its_claim_expires(otto, serve, start_worker) -> None:
    from wfdash.workflow import Workflow

    workflow = Workflow("short")

    @workflow.step(start=True)
    async def only(message: int) -> int:
        return message

    serve(workflow)
    run = start_run(otto, "short", 1)
    dead = name_of_an_ended_worker()
    start_heartbeat(dead)
    later = timezone.now() + timedelta(hours=1)
    Claim.objects.create(run=run, token=ids.new_token(), worker=dead, epoch=0, expires=later)
    start_worker()
    until(reaches(run, "completed"))
    assert Event.objects.filter(run=run, kind="run.recovered").exists()
    until(lambda: not WorkerBeat.objects.filter(pk=dead).exists())

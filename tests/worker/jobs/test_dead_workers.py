from __future__ import annotations

import asyncio
import os
import subprocess
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from django.utils import timezone

from checkpoints import claims, ids
from checkpoints.claims import is_gone, process_name, start_time
from checkpoints.models import Claim, Event, WorkerBeat
from tests.worker.conftest import reaches, until
from tests.workflow.world import flow
from wfdash import pubsub
from wfdash.actions.runs.lifecycle import start_run
from wfdash.worker import serving as heartbeat
from wfdash.worker.serving import Serving, start_heartbeat

pytestmark = pytest.mark.django_db(transaction=True)
ELSEWHERE = "elsewhere:1:0123456789ab-5:abcdef"


def name_of(child: subprocess.Popen[bytes]) -> str:
    host, _, place = process_name().partition(f":{os.getpid()}:")
    return f"{host}:{child.pid}:{place.partition('-')[0]}-{start_time(child.pid)}:abcdef"


def sleeping() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def name_of_an_ended_worker() -> str:
    with sleeping() as child:
        name = name_of(child)
        child.kill()
    return name


def test_only_workers_that_have_certainly_ended_are_found() -> None:
    dead = name_of_an_ended_worker()
    living = [f"{process_name()}abcdef", ELSEWHERE, "home-0123:17:abcdef"]
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


@pytest.mark.parametrize("opened", [os.pidfd_open, Mock(side_effect=OSError("the kernel says nothing"))])
async def test_the_end_of_a_worker_that_has_begun_is_known_soon(opened, monkeypatch) -> None:
    monkeypatch.setattr(os, "pidfd_open", opened)
    serving, storage, taken = Serving("me"), AsyncMock(), asyncio.Queue[Any]()
    task = asyncio.create_task(heartbeat.end_dead_until(asyncio.Event(), storage, serving, taken.put))
    await asyncio.sleep(0.01)
    with sleeping() as child:
        for name in (ELSEWHERE, name_of(child)):
            pubsub.worker_begun.publish(name)
        await asyncio.sleep(0.2)
        storage.expire_claims.assert_not_called()
        child.kill()
        async with asyncio.timeout(2):
            assert await taken.get() is storage.expire_claims.return_value
    task.cancel()


def test_a_process_that_the_machine_hides_counts_as_alive(tmp_path, monkeypatch) -> None:
    running, dead = process_name(), name_of_an_ended_worker()
    monkeypatch.setattr(claims, "PROC", tmp_path)
    assert not is_gone(f"{running}abcdef")
    assert is_gone(dead)


@pytest.mark.process
def test_a_run_of_a_killed_worker_continues_before_its_claim_expires(otto, serve, start_worker) -> None:
    async def only(message: int) -> int:
        return message

    serve(flow(only, name="short"))
    run = start_run(otto, "short", 1)
    dead = name_of_an_ended_worker()
    for name in (dead, ELSEWHERE):  # Beside one that may live it takes over nothing else while a claim lasts.
        start_heartbeat(name)
    later = timezone.now() + timedelta(hours=1)
    Claim.objects.create(run=run, token=ids.new_token(), worker=dead, epoch=0, expires=later)
    start_worker(ttl=3600.0, heartbeat=1.0)
    until(reaches(run, "completed"))
    assert Event.objects.filter(run=run, kind="run.recovered").exists()
    until(lambda: not WorkerBeat.objects.filter(pk=dead).exists())

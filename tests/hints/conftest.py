from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import connections

from checkpoints import ids
from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import Run
from checkpoints.sql.conninfo import parameters_of
from wfdash.engines import catalog
from wfdash.pubsub.hints import Hints, SignalledHints, brokered
from wfdash.pubsub.hints.brokered import BrokeredHints, publisher

NEEDS = pytest.mark.skipif(importlib.util.find_spec("procrastinate") is None, reason="needs the extra cluster")
QUEUED = pytest.param("postgres", marks=[pytest.mark.postgres, NEEDS])


class Looking:
    """A worker that notes what it is given."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.woken: list[str] = []
        self.error: Exception | None = None

    def look_at(self, run: str) -> None:
        self.heard.append(run)

    @property
    def workflows(self) -> list[str]:
        return [entry.name for entry in catalog.entries()]

    def wake(self, run: str) -> None:
        self.woken.append(run)

    async def take(self, run: str) -> None:
        if self.error is not None:
            raise self.error
        self.look_at(run)


@pytest.fixture(params=["sqlite", QUEUED, "broker"])
def hints(request, settings, django_db_blocker, monkeypatch) -> Iterator[Hints]:
    """Each adapter on a database that it works on, which is wfdash's."""
    database = "sqlite" if request.param == "broker" else request.param
    settings.WFDASH_DATABASE_ALIAS = name = request.getfixturevalue(f"{database}_alias")
    found = [SimpleNamespace(name="expense"), SimpleNamespace(name="é" * 200)]
    monkeypatch.setattr(catalog, "entries", lambda: found)
    with django_db_blocker.unblock():
        if request.param == "postgres":
            request.getfixturevalue("procrastinate_tables")
            yield queued_hints()
        elif request.param == "broker":
            server = request.getfixturevalue("redis_server")
            server.execute("FLUSHALL")
            monkeypatch.setattr(brokered, "LISTEN_SECONDS", 0.02)
            quick = {**brokered.OPTIONS["redis"], "polling_interval": 0.02}
            monkeypatch.setattr(brokered, "OPTIONS", {"redis": quick})
            settings.WFDASH_BROKER = server.url
            yield BrokeredHints()
            publisher.close()
        else:
            yield SignalledHints()
        Run.objects.using(name).all().delete()
        connections[name].close()


def kill_once_it_is_there(program: str, given: object) -> None:
    """Run a program that says ``here`` and then waits, in a process of its own, and kill that."""
    command = [sys.executable, "-c", program, json.dumps(given)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.kill()


@pytest.fixture
def claim(hints: Hints, settings) -> Callable[..., list[str]]:
    """Claim what is due without any hint, as a worker does that looks."""

    def look(worker: str, ttl: float = 30.0) -> list[str]:
        async def ask() -> list[str]:
            async with DatabaseStorage(settings.WFDASH_DATABASE_ALIAS) as storage:
                return [one.run for one in await storage.claim_due(worker=worker, ttl=ttl, limit=32)]

        return asyncio.run(ask())

    return look


def queued_hints() -> Hints:
    from wfdash.pubsub.hints.queued import QueuedHints

    return QueuedHints()


@pytest.fixture(scope="session")
def procrastinate_tables(postgres_alias: str) -> None:
    """Procrastinate's tables beside ours, as its migrations make them."""
    from procrastinate.schema import SchemaManager

    with psycopg.connect(**parameters_of(connections[postgres_alias].settings_dict), autocommit=True) as connection:
        connection.execute(SchemaManager.get_schema())


@pytest.fixture
def make_run(hints: Hints, settings) -> Callable[..., str]:
    def make(workflow: str = "expense", **facts: Any) -> str:
        run, now = ids.new_run_id(), datetime.now(UTC)
        given = {"workflow": workflow, "version": "v1", "created": now, "updated": now, "phase": "ready", **facts}
        Run.objects.using(settings.WFDASH_DATABASE_ALIAS).create(id=run, family=run, **given)
        return run

    return make


@pytest.fixture
def serve(hints: Hints) -> Iterator[Callable[[], Looking]]:
    """Start a worker that is given hints."""
    ends: list[Callable[[], None]] = []

    def start() -> Looking:
        worker, started = Looking(), threading.Event()
        loop = asyncio.new_event_loop()

        async def work() -> None:
            stopping = asyncio.Event()
            serving = asyncio.ensure_future(hints.serve(worker, stopping))
            ended = asyncio.Event()
            ends.append(lambda: loop.call_soon_threadsafe(lambda: (stopping.set(), ended.set())))
            await asyncio.sleep(0)
            started.set()
            await ended.wait()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

        thread = threading.Thread(target=loop.run_until_complete, args=(work(),))
        thread.start()
        assert started.wait(30)
        ends.append(thread.join)
        ends.append(loop.close)
        return worker

    yield start
    for end in ends:
        end()

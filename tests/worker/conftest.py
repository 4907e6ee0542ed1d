from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import Grant, Leader, PublishedWorkflow, Run, WorkerBeat
from tests.worker.script import Play, Script, ScriptEngine
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog, Entry
from wfdash.engines.native import NativeEngine
from wfdash.queries.workflows import PublishedReader
from wfdash.worker.consultations import Replies, publish
from wfdash.worker.drive import Lease
from wfdash.worker.process import EmbeddedWorker
from wfdash.worker.serving import Serving, start_heartbeat
from wfdash.workflow import Workflow


@pytest.fixture
def otto(transactional_db) -> Viewer:
    user = User.objects.create_user("otto")
    Grant.objects.create(user=user, role="admin")
    return viewer_for(user)


@pytest.fixture
def define(monkeypatch) -> Callable[..., Entry]:
    """Put a script into the catalogue under the name ``script``."""
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: found)
    engine = ScriptEngine()

    def add(play: Play, *, version: str = "v1", limit: int | None = None) -> Entry:
        script = Script(name="script", play=play, version=version, limit=limit)
        entry = Entry(
            name="script", definition=script, engine=engine, description=engine.describe(script), source="test"
        )
        found.entries["script"] = entry
        return entry

    return add


@pytest.fixture
def serve(monkeypatch) -> Callable[[Workflow], Entry]:
    """Put a native workflow into the catalogue."""
    found, engine = Catalog(), NativeEngine()
    monkeypatch.setattr(catalog, "load", lambda: found)

    def add(workflow: Workflow) -> Entry:
        described = engine.describe(workflow)
        entry = Entry(name=workflow.name, definition=workflow, engine=engine, description=described, source="test")
        found.entries[workflow.name] = entry
        return entry

    return add


@pytest.fixture
def start_worker(transactional_db, tmp_path, monkeypatch) -> Iterator[Callable[..., EmbeddedWorker]]:
    started: list[EmbeddedWorker] = []
    monkeypatch.setattr("wfdash.worker.worker.STEADY_SECONDS", 1.0)

    def start(**lease: float) -> EmbeddedWorker:
        worker = EmbeddedWorker(tmp_path / "worker.lock", lease=Lease(**lease) if lease else None)
        assert worker.start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.stop()


def until(condition: Callable[[], object], *, within: float = 60.0) -> None:
    """Wait for a condition; fails with what it last returned."""
    deadline = time.monotonic() + within
    while not (last := condition()):
        assert time.monotonic() < deadline, f"still {last!r} after {within} s"
        time.sleep(0.01)


def phase_of(run: Run | SimpleNamespace) -> str:
    return Run.objects.values_list("phase", flat=True).get(pk=run.id)


def reaches(run: Run, phase: str) -> Callable[[], bool]:
    return lambda: phase_of(run) == phase


@pytest.fixture
def cluster(settings, postgres_alias: str, django_db_blocker) -> Iterator[str]:
    settings.WFDASH_DATABASE_ALIAS = postgres_alias
    settings.DATABASE_ROUTERS = ["checkpoints.database.router.Router"]
    with django_db_blocker.unblock():
        yield postgres_alias
        for model in (Leader, PublishedWorkflow, WorkerBeat):
            model.objects.using(postgres_alias).all().delete()
        connections[postgres_alias].close()


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """The catalogue of this process, which is a worker's or that of a server without code."""
    found = Catalog(engines=(NativeEngine(),))
    monkeypatch.setattr(catalog, "load", lambda: found)
    return found


@pytest.fixture
def unload(loaded: Catalog) -> Callable[[], list[Entry]]:
    """Publish what is loaded, and go on as a server that has loaded nothing; returns what was."""

    def go_on() -> list[Entry]:
        entries = [entry for entry in loaded.entries.values() if not entry.published]
        publish(entries, begins=True)
        loaded.entries.clear()
        PublishedReader().read()
        return entries

    return go_on


@pytest.fixture
def web(otto: Viewer) -> Client:
    browser = Client()
    browser.force_login(otto.user)
    return browser


class LoadedInWorker(Serving):
    """What a worker has loaded, beside the catalogue of this process."""

    def __init__(self, worker: str, entries: Sequence[Entry]) -> None:
        super().__init__(worker)
        self._entries = list(entries)

    def entries(self) -> list[Entry]:
        return self._entries


class ReplyingWorker:
    """The part of a worker that replies to servers, in a thread."""

    def __init__(self, name: str, entries: Sequence[Entry]) -> None:
        self._serving = LoadedInWorker(name, entries)
        self._name, self._ready = name, Event()
        self._thread = Thread(target=asyncio.run, args=(self._serve(),))

    def start(self) -> None:
        start_heartbeat(self._name, self._serving.loaded())
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._loop.call_soon(self._ready.set)
        replies = Replies(self._name, self._serving)
        looks = asyncio.create_task(self._look(replies))
        await replies.reply_until(self._stopping)
        looks.cancel()

    async def _look(self, replies: Replies) -> None:
        """Look as a worker does, only sooner."""
        async with DatabaseStorage() as storage:
            while True:
                await storage.look(beside=replies.side_statements())
                await asyncio.sleep(0.1)


@pytest.fixture
def start_replies() -> Iterator[Callable[..., ReplyingWorker]]:
    """Start a worker that replies for these workflows."""
    started: list[ReplyingWorker] = []

    def start(*entries: Entry, name: str = "w1") -> ReplyingWorker:
        worker = ReplyingWorker(name, entries)
        worker.start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.stop()

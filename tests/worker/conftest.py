from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User

from checkpoints.models import Grant, Run
from tests.worker.script import Play, Script, ScriptEngine
from wfdash import catalog
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.catalog import Catalog, Entry
from wfdash.engines.native import NativeEngine
from wfdash.worker.drive import Lease
from wfdash.worker.embedded import EmbeddedWorker
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

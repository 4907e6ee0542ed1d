"""The engine of docs/internals/engines.md in the dashboard: its runs wait, are answered and restored like any other."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from checkpoints.models import Checkpoint, Run
from tests.driving import drive, pending
from tests.people import make_people, viewer
from wfdash.actions.checkpoints import restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.domain.errors import Invalid
from wfdash.engines import catalog
from wfdash.engines.conformance import CHECKS

PAGE = Path(__file__).parents[2] / "docs/internals/engines.md"
pytestmark = pytest.mark.django_db(transaction=True)


def serve_files(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the files of a page until the fixture that yields from here ends."""
    files = dict(re.findall(r'```python title="(\w+)\.py"\n(.*?)```', page.read_text(), re.DOTALL))
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()
    for name in files:
        sys.modules.pop(name, None)


@pytest.fixture
def served(tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the files of the page from a folder of their own."""
    settings.WFDASH_ENGINES = [*settings.WFDASH_ENGINES, "checklist_engine.ChecklistEngine"]
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], ["workflows.py"]
    yield from serve_files(PAGE, tmp_path, monkeypatch)


def answer(run: Run, text: str) -> str:
    (request,) = pending(run).values()
    answer_request(viewer("ana"), request.pk, text)
    return drive(run)


async def test_the_engine_of_the_page_passes_the_checks_that_apply(served: None) -> None:
    page = importlib.import_module("test_checklist_engine")
    skipped: dict[str, str] = {}
    for check in CHECKS:
        try:
            await page.test_the_engine_keeps_its_promises(check)
        except pytest.skip.Exception as reason:
            skipped[check.__name__] = str(reason)
    assert 10 < len(CHECKS) - len(skipped) < len(CHECKS)
    assert skipped["a_waiting_run_continues_in_a_changed_graph_only_where_it_can"] == "the engine is no Migrates"
    assert set(skipped.values()) > {"Samples.steps is not given", "the engine is no Shows"}


def test_a_run_of_the_engine_waits_is_answered_and_restored_as_any_other(served: None) -> None:
    make_people()
    assert catalog.failures() == []
    with pytest.raises(Invalid) as refused:
        start_run(viewer("otto"), "opening", "something")
    assert refused.value.errors == [{"loc": [], "msg": "A checklist takes no input"}]
    run = start_run(viewer("otto"), "opening", None)
    assert drive(run) == "waiting"
    assert answer(run, "yes") == "waiting"
    assert answer(run, "80") == "completed"
    assert Run.objects.get(pk=run.pk).output == ["yes", "80"]

    second = Checkpoint.objects.get(run=run, n=2)
    restore_run(viewer("otto"), run.pk, second.pk)
    assert drive(run) == "waiting"
    assert answer(run, "90") == "completed"
    assert Run.objects.get(pk=run.pk).output == ["yes", "90"]

    client = Client()
    client.force_login(make_people()["otto"])
    assert "Is the door open?" in client.get(f"/runs/{run.pk}/").content.decode()

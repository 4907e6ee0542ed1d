"""Journeys through the house stay short: a reader of one request opens few files."""

from __future__ import annotations

import pytest

from checkpoints.records import Record
from tests.benchmarks.pages.bench_journeys import Journeys, count_by_module, load_workflow
from tests.conftest import trust
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog

MOST = {"answer": (76, 1830), "claim to end": (59, 930), "restore": (58, 1280), "list": (45, 1570), "start": (55, 930)}
"""Modules and calls, with a tenth to spare: the benchmark has the bars."""


@pytest.mark.django_db(transaction=True)
def test_a_journey_visits_few_modules_and_makes_few_calls(settings, monkeypatch) -> None:
    settings.WFDASH_UNDO = 0
    served = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: served)
    monkeypatch.setattr(Record, "trusted", classmethod(trust))
    load_workflow(served)
    found = {name: (len(count_by_module(calls)), calls.total()) for name, calls in Journeys().measure().items()}
    longer = {name: got for name, got in found.items() if got[0] > MOST[name][0] or got[1] > MOST[name][1]}
    assert not longer, f"{longer}, not {MOST}: see python -m tests.benchmarks.pages.bench_journeys --calls"

"""Journeys through the house stay short: a reader of one request opens few files."""

from __future__ import annotations

import pytest

from checkpoints.records import Record
from tests.benchmarks.pages.bench_journeys import Journeys, count_by_module, load_workflow
from tests.conftest import trust
from wfdash.engines import catalog

MOST = {"answer": (71, 1240), "claim to end": (55, 880), "restore": (45, 850), "list": (42, 1330), "start": (52, 580)}
"""Modules and calls, with a tenth to spare: the benchmark has the bars."""


@pytest.mark.django_db(transaction=True)
def test_a_journey_visits_few_modules_and_makes_few_calls(settings, monkeypatch) -> None:
    settings.WFDASH_UNDO = 0
    monkeypatch.setattr(Record, "trusted", classmethod(trust))
    load_workflow(catalog.load())
    found = {name: (len(count_by_module(calls)), calls.total()) for name, calls in Journeys().measure().items()}
    longer = {name: got for name, got in found.items() if got[0] > MOST[name][0] or got[1] > MOST[name][1]}
    assert not longer, f"{longer}, not {MOST}: see python -m tests.benchmarks.pages.bench_journeys --calls"

"""Runs that a program makes itself in the dashboard's database: workers leave them alone until a person asks."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

import pytest

from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import HumanRequest, Run
from tests.driving import drive, put
from tests.worker.graphs import expense
from wfdash import actions, catalog, queries
from wfdash.catalog import Catalog
from wfdash.outcomes import Finished, Waiting
from wfdash.pages.runs.status_text import plain, status_sentence

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waiting(monkeypatch) -> Run:
    """A run that a program has made with the library, which waits for an answer."""
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lru_cache(lambda: found))
    put(found, expense())
    outcome = call({"amount": 3})
    assert isinstance(outcome, Waiting)
    return Run.objects.get(pk=outcome.checkpoint.run)


def call(*message: Any, **options: Any) -> Any:
    async def run() -> Any:
        async with DatabaseStorage() as storage:
            return await expense().run(*message, storage=storage, **options)

    return asyncio.run(run())


def test_its_question_is_answered_in_the_dashboard_and_its_program_continues(waiting, otto) -> None:
    actions.answer_request(otto, HumanRequest.objects.get().pk, 5)
    assert drive(waiting) == "ready"
    shown = queries.run(otto, waiting.pk)
    assert plain(status_sentence(shown), shown.created) == "Run by the program that started it: no worker takes it"
    done = call(run_id=waiting.pk)
    assert isinstance(done, Finished)
    assert done.output == "paid 5"


def test_a_worker_takes_it_once_a_person_has_restored_or_resumed_it(waiting, otto) -> None:
    actions.pause_run(otto, waiting.pk)
    actions.resume_run(otto, waiting.pk)
    assert drive(waiting) == "waiting"
    actions.answer_request(otto, HumanRequest.objects.get().pk, 5)
    assert drive(waiting) == "completed"


def test_its_fork_in_the_dashboard_is_for_workers_and_it_stays_its_programs(waiting, otto) -> None:
    head = waiting.checkpoints.latest("n")
    fork = actions.fork_run(otto, waiting.pk, head.pk)
    for request in HumanRequest.objects.all():
        actions.answer_request(otto, request.pk, 7)
    assert (drive(fork), drive(waiting)) == ("completed", "ready")

"""Runs that a program makes itself in the dashboard's database: workers leave them alone until a person asks."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import lru_cache
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import Claim, HumanRequest, Run
from tests.driving import drive, put
from tests.worker.graphs import expense
from wfdash.actions.checkpoints import fork_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import pause_run, resume_run
from wfdash.contract import Finished, Waiting
from wfdash.domain.errors import WrongState
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries.runs.listing import read_run
from wfdash.web.pages.runs.header import plain, status_sentence

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


@pytest.fixture
def browser(otto) -> Client:
    """Otto, signed in."""
    client = Client()
    client.force_login(otto.user)
    return client


def call(*message: Any, **options: Any) -> Any:
    async def run() -> Any:
        async with DatabaseStorage() as storage:
            return await expense().run(*message, storage=storage, **options)

    return asyncio.run(run())


def test_its_question_is_answered_in_the_dashboard_and_its_program_continues(waiting, otto) -> None:
    answer_request(otto, HumanRequest.objects.get().pk, 5)
    assert drive(waiting) == "ready"
    shown = read_run(otto, waiting.pk)
    said = plain(status_sentence(shown), shown.created)
    assert said == "Run by the program that started it: no worker takes it until it is handed over"
    done = call(run_id=waiting.pk)
    assert isinstance(done, Finished)
    assert done.output == "paid 5"


def test_a_worker_takes_it_once_a_person_has_restored_or_resumed_it(waiting, otto) -> None:
    pause_run(otto, waiting.pk)
    resume_run(otto, waiting.pk)
    assert drive(waiting) == "waiting"
    answer_request(otto, HumanRequest.objects.get().pk, 5)
    assert drive(waiting) == "completed"


def test_the_api_says_who_drives_it_and_hands_it_over_once_it_is_answered(waiting, otto, browser) -> None:
    address = f"/api/v1/runs/{waiting.pk}"
    answer_request(otto, HumanRequest.objects.get().pk, 5)
    shown = browser.get(address, {"wait": 30}).json()
    assert (shown["status"], shown["driver"], shown["rests"]) == ("queued", "program", True)
    assert browser.post(f"{address}/resume").status_code == 200
    shown = browser.get(address).json()
    assert (shown["status"], shown["driver"], shown["rests"]) == ("queued", "workers", False)
    assert drive(waiting) == "completed"


def test_its_page_hands_it_over(waiting, otto, browser) -> None:
    hand_over = f"/runs/{waiting.pk}/handover/"
    assert hand_over not in browser.get(f"/runs/{waiting.pk}/").content.decode()
    answer_request(otto, HumanRequest.objects.get().pk, 5)
    assert hand_over in browser.get(f"/runs/{waiting.pk}/").content.decode()
    browser.post(hand_over)
    assert hand_over not in browser.get(f"/runs/{waiting.pk}/").content.decode()
    assert drive(waiting) == "completed"


def test_it_is_not_handed_over_while_its_program_executes_it(waiting, otto) -> None:
    answer_request(otto, HumanRequest.objects.get().pk, 5)
    ends = timezone.now() + timedelta(hours=1)
    Claim.objects.create(run=waiting, token="mine", worker="mine", epoch=waiting.epoch, expires=ends)
    assert not read_run(otto, waiting.pk).rests
    with pytest.raises(WrongState, match="own program executes it now"):
        resume_run(otto, waiting.pk)


def test_its_fork_in_the_dashboard_is_for_workers_and_it_stays_its_programs(waiting, otto) -> None:
    head = waiting.checkpoints.latest("n")
    fork = fork_run(otto, waiting.pk, head.pk)
    for request in HumanRequest.objects.all():
        answer_request(otto, request.pk, 7)
    assert (drive(fork), drive(waiting)) == ("completed", "ready")

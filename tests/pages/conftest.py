from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from checkpoints.models import Checkpoint, HumanRequest, Run, WorkflowVersion
from tests import people
from tests.pages.paper import expenses
from wfdash import catalog


@pytest.fixture(autouse=True)
def _paper_catalog(settings) -> Iterator[None]:
    settings.WFDASH_ENGINES = ["tests.pages.paper.PaperEngine", "wfdash.engines.native.NativeEngine"]
    settings.WFDASH_APPS = ["tests.pages.served"]
    settings.WFDASH_WORKFLOWS = []
    catalog.load.cache_clear()
    cache.clear()
    yield
    catalog.load.cache_clear()


@pytest.fixture
def everybody(db) -> dict[str, User]:
    return people.make_people()


@pytest.fixture
def as_(everybody: dict[str, User]) -> Callable[..., Client]:
    def sign_in(name: str, **options: bool) -> Client:
        client = Client(**options)
        if name:
            client.force_login(everybody[name])
        return client

    return sign_in


@pytest.fixture
def run(everybody: dict[str, User]) -> Run:
    described = expenses.description
    WorkflowVersion.objects.create(
        workflow=described.workflow, version=described.version, description=described.model_dump(mode="json")
    )
    return people.make_run(created_by=everybody["otto"])


@pytest.fixture
def question(run: Run) -> HumanRequest:
    return people.ask(run)


@pytest.fixture
def history(run: Run) -> list[Checkpoint]:
    """Three checkpoints in a row; the second waits for a review, the third comes after a call."""
    people.happen(
        run, ("run.queued", None, {"by": "otto"}), *people.step("read", "started", "finished", output={"x": 1})
    )
    first = people.save(run, step="read", body={"state": {"n": 1}, "position": {}})
    people.happen(run, *people.step("review", "started", "waiting"))
    second = people.save(run, first, step="review", body={"state": {"n": 2, "secret": "hush"}, "position": {}})
    people.happen(run, *people.step("review", "finished"), *people.step("pay", "started", "finished"))
    third = people.save(run, second, step="pay", body={"state": {"n": 3, "secret": "hush"}, "position": {}})
    people.did(run, "bank.transfer", n=3)
    return [first, second, third]

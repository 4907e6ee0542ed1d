from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from checkpoints.models import Checkpoint, HumanRequest, Run
from tests import people
from tests.pages.shown import make_drawn_run, make_history
from tests.queries.conftest import everybody as everybody
from wfdash.engines import catalog


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
def as_(everybody: dict[str, User]) -> Callable[..., Client]:
    def sign_in(name: str, **options: bool) -> Client:
        client = Client(**options)
        if name:
            client.force_login(everybody[name])
        return client

    return sign_in


@pytest.fixture
def run(everybody: dict[str, User]) -> Run:
    return make_drawn_run(everybody["otto"])


@pytest.fixture
def question(run: Run) -> HumanRequest:
    return people.ask(run)


@pytest.fixture
def history(run: Run) -> list[Checkpoint]:
    """Three checkpoints in a row; the second waits for a review, the third comes after a call."""
    return make_history(run)

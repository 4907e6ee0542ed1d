"""The limit of a workflow on a real PostgreSQL, where many claim at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import pytest
from django.utils import timezone

from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import new_run_id
from checkpoints.models import Run
from checkpoints.storage import Serves

pytestmark = pytest.mark.postgres
LIMIT, CLAIMERS, CLAIMS, NAME = 3, 6, 60, "few-at-once"
SERVES = Serves(workflows=(NAME,), limits={NAME: LIMIT})


class Gate:
    """Counts who has a claim at the moment, and how many were claimed."""

    def __init__(self) -> None:
        self.lock, self.inside, self.most, self.entered = Lock(), 0, 0, 0

    def enter(self) -> None:
        with self.lock:
            self.inside, self.entered = self.inside + 1, self.entered + 1
            self.most = max(self.most, self.inside)

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1


@pytest.fixture
def alias(postgres_alias: str, django_db_blocker: pytest.FixtureRequest) -> Iterator[str]:
    """Twenty runs of one workflow that are ready."""
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        now, ids = timezone.now(), [str(new_run_id()) for _ in range(20)]
        given = {"workflow": NAME, "version": "1", "created": now, "updated": now}
        Run.objects.using(postgres_alias).bulk_create(Run(id=one, family=one, **given) for one in ids)
        yield postgres_alias
        Run.objects.using(postgres_alias).filter(pk__in=ids).delete()


def test_of_many_that_claim_at_once_no_more_have_a_claim_than_the_limit_says(alias: str) -> None:
    gate = Gate()

    async def claim_and_release(worker: str) -> None:
        storage = DatabaseStorage(alias)
        try:
            while gate.entered < CLAIMS:
                claims = await storage.claim_due(worker=worker, ttl=30, limit=2, serves=SERVES)
                for _ in claims:
                    gate.enter()
                await asyncio.sleep(0.003)
                for claim in claims:
                    gate.leave()
                    await storage.release(claim)
        finally:
            await storage.aclose()

    with ThreadPoolExecutor(CLAIMERS) as threads:
        list(threads.map(lambda number: asyncio.run(claim_and_release(f"w{number}")), range(CLAIMERS)))
    assert gate.entered >= CLAIMS
    assert 1 < gate.most <= LIMIT

"""What the suites need besides the ports: people who answer, operators who cancel, and bytes that rot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db import connections

from checkpoints import models
from checkpoints.ids import CheckpointId, RequestKey, RunId, new_checkpoint_id
from checkpoints.memory import MemoryStorage
from checkpoints.orm import DatabaseStorage, write
from checkpoints.records import Checkpoint, Claim, Commit, EventDraft, Phase, Request, Standing

T = TypeVar("T")


def checkpoint(run: RunId, n: int = 1, **changes: Any) -> Checkpoint:
    """Return a small checkpoint."""
    plain: dict[str, Any] = {
        "id": new_checkpoint_id(),
        "run": run,
        "workflow": "expense",
        "n": n,
        "version": "v1",
        "created": datetime.now(UTC),
        "body": {"state": {"n": n}, "position": {"at": [1, 2.5, None, True]}},
    }
    return Checkpoint(**{**plain, **changes})


def started(run: RunId) -> Commit:
    """Return the commit that makes a run known and ready."""
    return Commit(run=run, events=(EventDraft(kind="run.queued"),))


def asking(run: RunId, *keys: str, n: int = 1, phase: Phase = Phase.WAITING) -> Commit:
    """Return a commit that opens requests and parks the run."""
    requests = tuple(Request(key=RequestKey(key), step="review", card={"subject": key}) for key in keys)
    events = tuple(EventDraft(kind="request.opened", step="review", data={"key": key}) for key in keys)
    parked = checkpoint(run, n, requests=requests)
    return Commit(run=run, checkpoint=parked, events=events, opened=requests, standing=Standing(phase=phase))


class MemoryWorld:
    """Storage in dicts."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()

    async def answer(self, run: RunId, key: str, value: Any) -> None:
        """Answer as a person."""
        self.storage.answer(run, RequestKey(key), value, by="rosa")

    async def cancel(self, run: RunId) -> None:
        """End the run as an operator does."""
        row = self.storage.runs[run]
        row.phase, row.claim, row.epoch = Phase.CANCELLED, None, row.epoch + 1

    async def phase(self, run: RunId) -> Phase:
        """Return the run's phase."""
        return self.storage.runs[run].phase

    async def closed_as(self, run: RunId, key: str) -> list[str]:
        """Return what became of the requests of that key, oldest first."""
        return [r.closed_as for r in self.storage.runs[run].requests if r.request.key == key]

    async def request_ids(self, run: RunId) -> list[str]:
        """Return the row ids of the run's requests."""
        return [r.id for r in self.storage.runs[run].requests]

    async def effects(self, run: RunId) -> list[tuple[str, str, Any]]:
        """Return key, state and result of each recorded call."""
        return [(e.key, e.state, e.result) for e in self.storage.runs[run].effects]


class DatabaseWorld:
    """Storage in one of Django's databases."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.storage = DatabaseStorage(alias)

    async def answer(self, run: RunId, key: str, value: Any) -> None:
        """Answer as a person."""
        await self._do(lambda: self._answer(run, key, value))

    def _answer(self, run: RunId, key: str, value: Any) -> None:
        now = datetime.now(UTC)
        models.Run.objects.using(self.alias).select_for_update().get(id=run)
        request = models.HumanRequest.objects.using(self.alias).get(run_id=run, key=key, closed=None)
        rosa, _ = User.objects.using(self.alias).get_or_create(username="rosa")
        models.Answer.objects.using(self.alias).create(request=request, value=value, by=rosa, at=now)
        models.HumanRequest.objects.using(self.alias).filter(id=request.id).update(answered=now)
        parked = models.Run.objects.using(self.alias).filter(id=run, phase__in=["waiting", "sleeping", "retrying"])
        parked.update(phase="ready", wake_at=None)

    async def cancel(self, run: RunId) -> None:
        """End the run as an operator does."""
        await self._do(lambda: self._cancel(run))

    def _cancel(self, run: RunId) -> None:
        models.Run.objects.using(self.alias).filter(id=run).update(phase="cancelled")
        models.Claim.objects.using(self.alias).filter(run_id=run).delete()

    async def phase(self, run: RunId) -> Phase:
        """Return the run's phase."""
        return Phase(await self._do(lambda: models.Run.objects.using(self.alias).get(id=run).phase))

    async def closed_as(self, run: RunId, key: str) -> list[str]:
        """Return what became of the requests of that key, oldest first."""
        rows = models.HumanRequest.objects.using(self.alias).filter(run_id=run, key=key).order_by("id")
        return await self._do(lambda: list(rows.values_list("closed_as", flat=True)))

    async def request_ids(self, run: RunId) -> list[str]:
        """Return the row ids of the run's requests."""
        rows = models.HumanRequest.objects.using(self.alias).filter(run_id=run).order_by("id")
        return await self._do(lambda: list(rows.values_list("id", flat=True)))

    async def effects(self, run: RunId) -> list[tuple[str, str, Any]]:
        """Return key, state and result of each recorded call."""
        rows = models.Effect.objects.using(self.alias).filter(run_id=run).order_by("id")
        return await self._do(lambda: list(rows.values_list("key", "state", "result")))

    async def damage(self, run: RunId, checkpoint: CheckpointId) -> None:
        """Change one character of the stored content."""
        rows = models.Checkpoint.objects.using(self.alias).filter(run_id=run, id=checkpoint)
        await self._do(lambda: rows.update(body=rows.get().body.replace("state", "stale")))

    async def damage_chunk(self, run: RunId) -> None:
        """Change the bytes of one of the run's chunks."""
        rows = models.Chunk.objects.using(self.alias).filter(family=run)
        await self._do(lambda: rows.filter(id=rows.first().id).update(data=b'{"v":1}'))

    async def lose_chunk(self, run: RunId) -> None:
        """Remove one of the run's chunks."""
        rows = models.Chunk.objects.using(self.alias).filter(family=run)
        await self._do(lambda: rows.filter(id=rows.first().id).delete())

    async def _do(self, act: Callable[[], T]) -> T:
        return await asyncio.to_thread(self._in_transaction, act)

    def _in_transaction(self, act: Callable[[], T]) -> T:
        try:
            with write(self.alias):
                return act()
        finally:
            connections[self.alias].close()


World = MemoryWorld | DatabaseWorld


async def claimed(world: World, run: RunId, *, ttl: float = 30.0) -> Claim:
    """Return a claim on a run that is due."""
    claim = await world.storage.claim(run, worker="test", ttl=ttl)
    assert claim is not None
    return claim


async def until(condition: Callable[[], Awaitable[T]], *, seconds: float = 5.0) -> T:
    """Return the first true outcome of a condition that is asked again and again."""
    async with asyncio.timeout(seconds):
        while not (outcome := await condition()):
            await asyncio.sleep(0.005)
    return outcome

"""Our storages as worlds: people who answer, operators who cancel, and bytes that rot."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db import connections

from checkpoints import models
from checkpoints.conformance.worlds import asking, checkpoint, claimed, started, until
from checkpoints.content.encryption import encryptor_of
from checkpoints.database.storage import DatabaseStorage, write
from checkpoints.file import FileStorage
from checkpoints.ids import CheckpointId, RequestKey, RunId
from checkpoints.langgraph.models import LangGraphThread, ThreadCheckpoint, ThreadWrite
from checkpoints.memory import MemoryStorage
from checkpoints.models.fields import DatabaseNow
from checkpoints.models.operations import Installation
from checkpoints.records import Phase
from checkpoints.rules import Priority
from checkpoints.sql.storage import StandaloneStorage

__all__ = [
    "AnyWorld",
    "DatabaseWorld",
    "FileWorld",
    "MemoryWorld",
    "asking",
    "checkpoint",
    "claimed",
    "empty",
    "started",
    "until",
]

T = TypeVar("T")

AWAY = "ALTER TABLE checkpoints_checkpoint RENAME TO checkpoints_away"
BACK = "ALTER TABLE checkpoints_away RENAME TO checkpoints_checkpoint"
FIRST_CHUNK = "SELECT min(rowid) FROM checkpoints_chunk WHERE family=?"


class FileWorld:
    """Storage in a file of its own."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path, self.keys = path, options.get("encryption_keys", "")
        self.storage: StandaloneStorage = FileStorage(path, **options)

    async def answer(self, run: RunId, key: str, value: Any) -> None:
        await self.storage.answer(run, RequestKey(key), value, by="rosa")

    async def cancel(self, run: RunId) -> None:
        self._do("UPDATE checkpoints_run SET phase='cancelled', epoch=epoch+1 WHERE id=?", run)
        self._do("DELETE FROM checkpoints_claim WHERE run_id=?", run)

    async def phase(self, run: RunId) -> Phase:
        return Phase(self._do("SELECT phase FROM checkpoints_run WHERE id=?", run)[0][0])

    async def closed_as(self, run: RunId, key: str) -> list[str]:
        """Return what became of the requests of that key, oldest first."""
        sql = "SELECT closed_as FROM checkpoints_humanrequest WHERE run_id=? AND key=? ORDER BY id"
        return [text for (text,) in self._do(sql, run, key)]

    async def request_ids(self, run: RunId) -> list[str]:
        return [id_ for (id_,) in self._do("SELECT id FROM checkpoints_humanrequest WHERE run_id=? ORDER BY id", run)]

    async def effects(self, run: RunId) -> list[tuple[str, str, Any]]:
        rows = self._do("SELECT key, state, result FROM checkpoints_effect WHERE run_id=? ORDER BY id", run)
        sealer = encryptor_of(self.keys)
        opened = [sealer.decrypt_document(result, "effect", run, key, "result") for key, _, result in rows]
        return [(key, state, json.loads(text)) for (key, state, _), text in zip(rows, opened, strict=True)]

    async def damage(self, run: RunId, checkpoint: CheckpointId) -> None:
        sql = "UPDATE checkpoints_checkpoint SET body=replace(body, 'body', 'bogy') WHERE run_id=? AND id=?"
        self._do(sql, run, checkpoint)

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[None]:
        self._do(AWAY)
        try:
            yield
        finally:
            self._do(BACK)

    async def damage_chunk(self, run: RunId) -> None:
        self._do("UPDATE checkpoints_chunk SET data=CAST(data||' ' AS BLOB) WHERE rowid=(" + FIRST_CHUNK + ")", run)

    async def lose_chunk(self, run: RunId) -> None:
        self._do("DELETE FROM checkpoints_chunk WHERE rowid=(" + FIRST_CHUNK + ")", run)

    async def chunks(self, run: RunId) -> int:
        return int(self._do("SELECT count(*) FROM checkpoints_chunk WHERE family=?", run)[0][0])

    def _do(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path, timeout=20)
        try:
            with connection:
                return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()


class MemoryWorld(FileWorld):
    """Storage in memory: people and harm reach it through its own connection."""

    def __init__(self) -> None:
        self.keys = ""
        self.storage = self._memory = MemoryStorage()

    def _do(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._memory._connection.execute(sql, parameters).fetchall()


class DatabaseWorld:
    """Storage in one of Django's databases."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.storage = DatabaseStorage(alias)

    async def answer(self, run: RunId, key: str, value: Any) -> None:
        await self._do(lambda: self._answer(run, key, value))

    def _answer(self, run: RunId, key: str, value: Any) -> None:
        now = datetime.now(UTC)
        models.Run.objects.using(self.alias).select_for_update().get(id=run)
        request = models.HumanRequest.objects.using(self.alias).get(run_id=run, key=key, closed=None)
        rosa, _ = User.objects.using(self.alias).get_or_create(username="rosa")
        models.Answer(request=request, value=value, by=rosa, at=now).bound().save(using=self.alias, force_insert=True)
        models.HumanRequest.objects.using(self.alias).filter(id=request.id).update(answered=now)
        parked = models.Run.objects.using(self.alias).filter(id=run, phase__in=["waiting", "sleeping", "retrying"])
        parked.update(phase="ready", wake_at=None, priority=Priority.RESUMED, ready_at=DatabaseNow())

    async def cancel(self, run: RunId) -> None:
        await self._do(lambda: self._cancel(run))

    def _cancel(self, run: RunId) -> None:
        models.Run.objects.using(self.alias).filter(id=run).update(phase="cancelled")
        models.Claim.objects.using(self.alias).filter(run_id=run).delete()

    async def phase(self, run: RunId) -> Phase:
        return Phase(await self._do(lambda: models.Run.objects.using(self.alias).get(id=run).phase))

    async def closed_as(self, run: RunId, key: str) -> list[str]:
        """Return what became of the requests of that key, oldest first."""
        rows = models.HumanRequest.objects.using(self.alias).filter(run_id=run, key=key).order_by("id")
        return await self._do(lambda: list(rows.values_list("closed_as", flat=True)))

    async def request_ids(self, run: RunId) -> list[str]:
        rows = models.HumanRequest.objects.using(self.alias).filter(run_id=run).order_by("id")
        return await self._do(lambda: list(rows.values_list("id", flat=True)))

    async def effects(self, run: RunId) -> list[tuple[str, str, Any]]:
        rows = models.Effect.objects.using(self.alias).filter(run_id=run).order_by("id")
        return await self._do(lambda: [(row.key, row.state, row.result) for row in rows])

    async def damage(self, run: RunId, checkpoint: CheckpointId) -> None:
        rows = models.Checkpoint.objects.using(self.alias).filter(run_id=run, id=checkpoint)
        await self._do(lambda: rows.update(body=rows.get().body.replace("body", "bogy")))

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[None]:
        await self._do(lambda: connections[self.alias].cursor().execute(AWAY))
        try:
            yield
        finally:
            await self._do(lambda: connections[self.alias].cursor().execute(BACK))

    async def damage_chunk(self, run: RunId) -> None:
        rows = models.Chunk.objects.using(self.alias).filter(family=run)
        await self._do(lambda: rows.filter(id=rows.first().id).update(data=b'{"v":1}'))

    async def lose_chunk(self, run: RunId) -> None:
        rows = models.Chunk.objects.using(self.alias).filter(family=run)
        await self._do(lambda: rows.filter(id=rows.first().id).delete())

    async def chunks(self, run: RunId) -> int:
        return await self._do(models.Chunk.objects.using(self.alias).filter(family=run).count)

    async def _do(self, act: Callable[[], T]) -> T:
        return await asyncio.to_thread(self._in_transaction, act)

    def _in_transaction(self, act: Callable[[], T]) -> T:
        try:
            with write(self.alias):
                return act()
        finally:
            connections.close_all()


def empty(alias: str) -> None:
    """Remove all runs, threads and audit entries of a database: a rotation of keys looks at everything."""
    audit = (models.AuditEntry, models.AuditHead)
    try:
        with write(alias):
            for model in (
                models.Answer,
                models.Run,
                ThreadWrite,
                ThreadCheckpoint,
                LangGraphThread,
                models.Chunk,
                *(*audit, Installation),
            ):
                model.objects.using(alias).all().delete()
    finally:
        connections[alias].close()


AnyWorld = FileWorld | DatabaseWorld

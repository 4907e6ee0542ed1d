"""The ports on any other database Django knows (MariaDB, MySQL): plain ORM, one transaction per verb, own threads.

Slower than ``orm``: every verb is several round trips. The run's row is locked first, so what the other databases
check with partial indexes and conditional statements is checked under that lock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, InterfaceError, InternalError, OperationalError, connections

from checkpoints import models, rules
from checkpoints.errors import ClaimLost, Conflict, Damaged, NotFound
from checkpoints.genericrows import (
    Place,
    add_checkpoint,
    add_events,
    admitted,
    close_requests,
    hold,
    keep_effects,
    open_requests,
    settle,
    sweep,
)
from checkpoints.ids import CheckpointId, RequestKey, RunId, new_checkpoint_id, new_token
from checkpoints.orm import DatabaseStorage, write
from checkpoints.records import (
    ENDED,
    FORMAT,
    Answer,
    Checkpoint,
    CheckpointFilter,
    CheckpointInfo,
    Claim,
    Commit,
    Event,
    Phase,
    Reason,
    RunFacts,
)
from checkpoints.retention import Needs
from checkpoints.rows import info_of, read_row

T = TypeVar("T")

THREADS = 8
ATTEMPTS = 10
"""How often a verb runs when the database chose it to break a deadlock."""
PAUSE = 0.01
"""Seconds it waits before the second time, twice as long before the third, and so on."""
DEADLOCK = 1213
"""MariaDB's and MySQL's number for it."""
SCRIPTED = frozenset({"sqlite", "postgresql"})


class GenericStorage(DatabaseStorage):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` through the ORM. For any loop and thread."""

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        """``using`` names one of Django's databases."""
        super().__init__(using)
        self._pool: ThreadPoolExecutor | None = None
        self._place = Place(using)

    def close(self) -> None:
        """End the threads."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def is_outage(self, error: Exception) -> bool:
        """Say whether the database could not be reached or could not write."""
        return isinstance(error, (OperationalError, InterfaceError, InternalError))

    async def aclose(self) -> None:
        """End the threads. The storage starts them again when it is used again."""
        await asyncio.to_thread(self.close)

    async def sync_clock(self) -> None:
        """Learn the database's time."""
        self._clock = time.monotonic(), await self._do(self._place.now)

    # CheckpointStorage

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """See ``CheckpointStorage.load``."""
        found: Checkpoint = await self._read_one(lambda: self._find(run, checkpoint))
        return found

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """See ``CheckpointStorage.get_latest``."""
        rows = self._place.of(models.Checkpoint).filter(run_id=run).order_by("-n")
        found: Checkpoint | None = await self._read_one(rows.first)
        return found

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50, where: CheckpointFilter | None = None
    ) -> Sequence[CheckpointInfo]:
        """See ``CheckpointStorage.list_checkpoints``."""
        rows = self._place.of(models.Checkpoint).filter(admitted(where or CheckpointFilter()), run_id=run)
        rows = rows.defer("body") if before is None else rows.defer("body").filter(n__lt=before)
        return await self._do(lambda: [info_of(row) for row in rows.order_by("-n")[:limit]])

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """See ``CheckpointStorage.list_checkpoint_ids``."""
        rows = self._place.of(models.Checkpoint).filter(run_id=run).order_by("-n").values_list("id", flat=True)
        return await self._do(lambda: [CheckpointId(id_) for id_ in rows])

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """See ``CheckpointStorage.delete``."""
        rows = self._place.of(models.Checkpoint).filter(run_id=run, id=checkpoint)
        return bool((await self._do(rows.delete))[0])

    async def prune(self, run: RunId, checkpoints: Collection[CheckpointId]) -> int:
        """See ``CheckpointStorage.prune``."""
        return await self._do(lambda: sweep(self._place, run, checkpoints))

    async def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> None:
        """See ``CheckpointStorage.quarantine``."""
        await self._do(lambda: self._change(run, checkpoint, intact=False, flaw=reason))

    async def set_label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> None:
        """See ``CheckpointStorage.set_label``."""
        rules.check_label(label)
        await self._do(lambda: self._change(run, checkpoint, label=label))

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """See ``CheckpointStorage.fork``."""
        await self.load(run, checkpoint)
        copy = new_checkpoint_id()
        await self._do(lambda: self._fork(run, checkpoint, new_run, copy))
        return await self.load(new_run, copy)

    # Journal

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """See ``Journal.commit``."""
        rules.check_label(commit.checkpoint.label if commit.checkpoint else None)
        return await self._do(lambda: self._commit_rows(commit, claim))

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """See ``Journal.read_events``."""
        rows = self._place.of(models.Event).filter(run_id=run, seq__gt=after).order_by("seq")[:limit]
        return await self._do(
            lambda: [Event(run=run, seq=r.seq, kind=r.kind, step=r.step, data=r.data, at=r.at) for r in rows]
        )

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``Journal.read_answers``."""
        rows = self._place.of(models.Answer).filter(request__run_id=run, request__closed=None)
        return await self._do(lambda: {a.key: a for a in map(answer_of, rows.select_related("request", "by"))})

    # Claims

    async def claim(self, run: RunId, *, worker: str, ttl: float) -> Claim | None:
        """See ``Claims.claim``."""
        return await self._do(lambda: self._claim(run, worker, ttl))

    async def renew(self, claim: Claim, *, ttl: float) -> Claim:
        """See ``Claims.renew``."""
        return await self._do(lambda: self._renew(claim, ttl))

    async def release(self, claim: Claim) -> None:
        """See ``Claims.release``."""
        rows = self._place.of(models.Claim).filter(run_id=claim.run, token=claim.token)
        await self._do(rows.delete)

    async def due(self, *, limit: int = 500) -> Sequence[RunId]:
        """See ``Claims.due``."""
        return await self._do(lambda: self._due(limit))

    async def expire_claims(self, *, worker_prefix: str) -> None:
        """End every claim of workers whose name starts so."""
        rows = self._place.of(models.Claim).filter(worker__startswith=worker_prefix)
        await self._do(lambda: rows.update(expires=self._place.now()))

    async def read_run(self, run: RunId) -> RunFacts:
        """Return what driving the run needs; ``NotFound``."""
        row = await self._do(self._place.of(models.Run).filter(id=run).first)
        if row is None:
            raise NotFound("There is no such run", run=run)
        facts = {name: getattr(row, name) for name in ("workflow", "version", "input", "n", "attempts")}
        return RunFacts(run=run, **facts)

    async def read_needs(self, run: RunId) -> Needs:
        """Return what else depends on the run's checkpoints."""
        return await self._do(lambda: self._needs(run))

    # What the methods are made of

    async def _do(self, verb: Callable[[], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="checkpoints")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._in_transaction, verb)

    def _in_transaction(self, verb: Callable[[], T]) -> T:
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    with write(self._using):
                        return verb()
                except OperationalError as error:
                    if error.args[:1] != (DEADLOCK,) or attempt == ATTEMPTS:
                        raise
                    time.sleep(PAUSE * attempt)
            raise AssertionError("unreachable")
        finally:
            connections[self._using].close()

    async def _read_one(self, find: Callable[[], models.Checkpoint | None]) -> Any:
        def read() -> Any:
            row = find()
            try:
                return None if row is None else read_row(row)
            except Damaged as error:
                error.facts.update(run=row.run_id, checkpoint=row.id) if row else None
                return error

        found = await self._do(read)
        if isinstance(found, Damaged):
            if not found.facts.get("known"):
                await self.quarantine(found.facts["run"], found.facts["checkpoint"], str(found))
            raise found
        return found

    def _find(self, run: RunId, checkpoint: CheckpointId) -> models.Checkpoint:
        row = self._place.of(models.Checkpoint).filter(run_id=run, id=checkpoint).first()
        if row is None:
            raise NotFound(run=run, checkpoint=checkpoint)
        return row

    def _change(self, run: RunId, checkpoint: CheckpointId, **changes: Any) -> None:
        self._find(run, checkpoint)
        self._place.of(models.Checkpoint).filter(run_id=run, id=checkpoint).update(**changes)

    def _fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId, copy: CheckpointId) -> None:
        origin, chosen = self._place.lock(run), read_row(self._find(run, checkpoint))
        if origin is None or self._place.lock(new_run) is not None:
            raise Conflict("the new run already exists: fork under a fresh run id", run=new_run)
        named = {name: getattr(chosen, name) for name in ("workflow", "version", "engine")}
        fork = self._place.begin(new_run, family=origin.family, forked_from=checkpoint, **named)
        changes = {"id": copy, "run": new_run, "n": 1, "parent": checkpoint, "reason": Reason.FORK, "format": FORMAT}
        record = chosen.model_copy(update={**changes, "label": None, "created": self._place.now()})
        add_checkpoint(self._place, fork, record, seq=0)
        self._place.of(models.Run).filter(id=new_run).update(n=1)

    def _commit_rows(self, commit: Commit, claim: Claim | None) -> int:
        run = self._place.lock(commit.run)
        if claim is not None:
            hold(self._place, run, claim, let_go=commit.standing is not None)
        row = run or self._place.begin(commit.run, **named(commit.checkpoint))
        seq, now = row.seq + len(commit.events), self._place.now()
        if commit.checkpoint is not None:
            add_checkpoint(self._place, row, commit.checkpoint, seq=seq)
            row.n, row.attempts = max(row.n, commit.checkpoint.n), 0
        close_requests(self._place, commit, now)
        ids = open_requests(self._place, row, commit.opened, now)
        add_events(self._place, row, rules.link_requests(commit.events, ids), now)
        keep_effects(self._place, commit, now)
        changes = {"seq": seq, "n": row.n, "attempts": row.attempts, "updated": now}
        self._place.of(models.Run).filter(id=row.id).update(**changes)
        if commit.standing is not None:
            settle(self._place, row, commit.standing, now)
        return seq

    def _claim(self, run: RunId, worker: str, ttl: float) -> Claim | None:
        row, now = self._place.lock(run), self._place.now()
        held = self._place.of(models.Claim).filter(run_id=run).first()
        if row is None or not rules.is_due(Phase(row.phase), row.wake_at, held.expires if held else None, now):
            return None
        attempts, epoch = row.attempts + (held is not None), row.epoch + 1
        changes = {"epoch": epoch, "attempts": attempts, "phase": Phase.READY.value, "wake_at": None}
        self._place.of(models.Run).filter(id=run).update(**changes)
        facts = {"token": new_token(), "worker": worker, "epoch": epoch, "ttl": ttl}
        facts["expires"] = now + timedelta(seconds=ttl)
        self._place.of(models.Claim).update_or_create(run_id=run, defaults=facts)
        return Claim(run=run, **facts, recovered=held is not None, attempts=attempts)

    def _renew(self, claim: Claim, ttl: float) -> Claim:
        self._place.lock(claim.run)
        now = self._place.now()
        rows = self._place.of(models.Claim).filter(run_id=claim.run, token=claim.token, expires__gt=now)
        expires = now + timedelta(seconds=ttl)
        if not rows.exists():
            raise ClaimLost(run=claim.run)
        rows.update(ttl=ttl, expires=expires)
        return claim.model_copy(update={"expires": expires, "ttl": ttl})

    def _due(self, limit: int) -> list[RunId]:
        now = self._place.now()
        live = self._place.of(models.Claim).filter(expires__gt=now).values("run_id")
        rows = self._place.of(models.Run).exclude(id__in=live)
        timed = rows.filter(wake_at__lte=now, phase__in=[phase.value for phase in rules.TIMED])
        found = [*rows.filter(phase=Phase.READY.value).values_list("id", flat=True)[:limit]]
        return [RunId(id_) for id_ in [*found, *timed.values_list("id", flat=True)[:limit]]][:limit]

    def _needs(self, run: RunId) -> Needs:
        row = self._place.of(models.Run).filter(id=run).first()
        if row is None:
            return Needs(ended=False, origins=frozenset())
        relatives = self._place.of(models.Run).filter(family=row.family, forked_from__isnull=False)
        origins = frozenset(CheckpointId(str(id_)) for id_ in relatives.values_list("forked_from", flat=True))
        return Needs(ended=Phase(row.phase) in ENDED, origins=origins)


def open_storage(using: str = DEFAULT_DB_ALIAS) -> DatabaseStorage:
    """Return the storage for one of Django's databases."""
    return DatabaseStorage(using) if connections[using].vendor in SCRIPTED else GenericStorage(using)


def named(checkpoint: Checkpoint | None) -> dict[str, str]:
    """Return what a run that begins with a commit is called."""
    if checkpoint is None:
        return {}
    return {"workflow": checkpoint.workflow, "version": checkpoint.version, "engine": checkpoint.engine}


def answer_of(row: models.Answer) -> Answer:
    """Return an answer as a record."""
    by = row.by.get_username() if row.by else None
    return Answer(key=RequestKey(row.request.key), value=row.value, by=by, at=as_utc(row.at))


def as_utc(at: datetime) -> datetime:
    """Return an aware time in UTC."""
    return at.astimezone(UTC)

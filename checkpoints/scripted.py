"""The ports over scripts: all that a storage of statements does, whatever runs the statements."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Protocol, TypeVar

from checkpoints.durability import must_sync
from checkpoints.encoding import Encoded, encode
from checkpoints.errors import Damaged, NotFound
from checkpoints.heads import Head, Heads
from checkpoints.ids import CheckpointId, RequestKey, RunId, new_checkpoint_id
from checkpoints.pruning import Pruning, Survey
from checkpoints.records import (
    Answer,
    Checkpoint,
    CheckpointFilter,
    CheckpointInfo,
    Claim,
    Commit,
    Event,
    RunFacts,
)
from checkpoints.retention import Needs
from checkpoints.rules import check_label
from checkpoints.scripts import HeadGone, Prepared, Script, Scripts, text_of
from checkpoints.seal import Sealer, sealer_of
from checkpoints.sealing import Sealing, through

T = TypeVar("T")

NO_LIMIT = 2**62


class Database(Protocol):
    """What runs scripts, for any loop and thread."""

    scripts: Scripts

    async def write(self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False) -> T:
        """Run a script in a transaction; what others share it with cannot spoil it.

        ``sync`` says that it must survive a power failure, also where ordinary steps need not; ``shared`` that it is
        short and there may be many like it.
        """

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""

    async def aclose(self) -> None:
        """End threads and connections once all that was asked is done."""


class ScriptedStorage(ABC):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` over a database that is opened at first use."""

    def __init__(self, sealer: Sealer | None = None) -> None:
        """``sealer`` encrypts what is stored; without one it is stored as it is."""
        self._sealer = sealer or sealer_of("")
        self._sealing: Sealing | None = None
        self._lock = Lock()
        self._database: Database | None = None
        self._clock: tuple[float, datetime] | None = None
        self._heads = Heads()

    @abstractmethod
    def _open(self) -> Database:
        """Open the database."""

    async def aclose(self) -> None:
        """End threads and connections. The storage opens them again when it is used again."""
        database = self._closed()
        if database is not None:
            await database.aclose()

    def now(self) -> datetime:
        """Return the database's time, aware, UTC; this machine's until ``sync_clock`` was awaited."""
        if self._clock is None:
            return datetime.now(UTC)
        read_at, theirs = self._clock
        return theirs + timedelta(seconds=time.monotonic() - read_at)

    async def sync_clock(self) -> None:
        """Learn the database's time. From then on neither this machine's clock nor its jumps matter."""
        theirs = await self._read(lambda s: s.now())
        self._clock = time.monotonic(), theirs

    # CheckpointStorage

    async def save(self, checkpoint: Checkpoint) -> CheckpointId:
        """See ``CheckpointStorage.save``."""
        await self.commit(Commit(run=checkpoint.run, checkpoint=checkpoint))
        return checkpoint.id

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """See ``CheckpointStorage.load``."""
        return await self._content(lambda s: s.load(run, checkpoint))

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """See ``CheckpointStorage.get_latest``."""
        return await self._content(lambda s: s.latest(run))

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50, where: CheckpointFilter | None = None
    ) -> Sequence[CheckpointInfo]:
        """See ``CheckpointStorage.list_checkpoints``."""
        chosen = (NO_LIMIT if before is None else before, limit, where or CheckpointFilter())
        return await self._read(lambda s: s.listing(run, *chosen))

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """See ``CheckpointStorage.list_checkpoint_ids``."""
        return await self._read(lambda s: s.ids(run))

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """See ``CheckpointStorage.delete``."""
        return await self._write(lambda s: s.delete(run, checkpoint))

    async def prune(self, run: RunId, checkpoints: Collection[CheckpointId]) -> int:
        """See ``CheckpointStorage.prune``. Marks outside of the transaction that removes: see ``pruning``."""
        survey = await self._read(lambda s: pruning(s, self._sealer).survey(run, checkpoints))
        if survey is None:
            return 0
        for relative in survey.runs if survey.unreached else ():
            before: int | None = NO_LIMIT
            while before is not None and survey.unreached:
                before = await self._read(
                    partial(mark, sealer=self._sealer, survey=survey, run=relative, before=before)
                )
        return await self._write(lambda s: pruning(s, self._sealer).sweep(survey))

    async def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> None:
        """See ``CheckpointStorage.quarantine``."""
        await self._write(lambda s: s.quarantine(run, checkpoint, reason))

    async def set_label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> None:
        """See ``CheckpointStorage.set_label``."""
        check_label(label)
        await self._write(lambda s: s.label(run, checkpoint, label))

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """See ``CheckpointStorage.fork``."""
        await self.load(run, checkpoint)
        copy = new_checkpoint_id()
        await self._write(lambda s: s.fork(run, checkpoint, new_run, copy))
        return await self.load(new_run, copy)

    # Journal

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """See ``Journal.commit``."""
        check_label(commit.checkpoint.label if commit.checkpoint else None)
        try:
            try:
                return await self._commit(commit, claim, self._heads.get(commit.run))
            except HeadGone:
                return await self._commit(commit, claim, None)
        except BaseException:
            self._heads.forget(commit.run)
            raise

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """See ``Journal.read_events``."""
        return await self._read(lambda s: s.events(run, after, limit))

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``Journal.read_answers``."""
        return await self._read(lambda s: s.answers(run))

    # Claims

    async def claim(self, run: RunId, *, worker: str, ttl: float) -> Claim | None:
        """See ``Claims.claim``."""
        return await self._write(lambda s: s.claim(run, worker, ttl), sync=False)

    async def renew(self, claim: Claim, *, ttl: float) -> Claim:
        """See ``Claims.renew``."""
        return await self._write(lambda s: s.renew(claim, ttl), sync=False)

    async def release(self, claim: Claim) -> None:
        """See ``Claims.release``."""
        await self._write(lambda s: s.release(claim), sync=False)

    async def due(self, *, limit: int = 500) -> Sequence[RunId]:
        """See ``Claims.due``."""
        return await self._read(lambda s: s.due(limit))

    async def expire_claims(self, *, worker_prefix: str) -> None:
        """End every claim of workers whose name starts so: for whoever knows that they are gone."""
        await self._write(lambda s: s.expire(worker_prefix))

    async def read_run(self, run: RunId) -> RunFacts:
        """Return what driving the run needs; ``NotFound``."""
        return await self._read(lambda s: s.facts(run))

    async def read_needs(self, run: RunId) -> Needs:
        """Return what else depends on the run's checkpoints: whether it goes on, and what was forked from."""
        return await self._read(lambda s: s.needs(run))

    # What the methods are made of

    async def _commit(self, commit: Commit, claim: Claim | None, head: Head | None) -> int:
        encoded = None if commit.checkpoint is None else encoded_content(commit.checkpoint, head, frozen=commit.frozen)
        events = tuple((e.kind, e.step, text_of(e.data)) for e in commit.events)
        leans_on = head.id if head is not None and encoded is not None and encoded.leans else None
        given = Prepared(commit=commit, claim=claim, encoded=encoded, events=events, leans_on=leans_on)
        seq = await self._write(lambda s: s.commit(given), sync=must_sync(commit), shared=True)
        self._heads.learn(commit, encoded)
        return seq

    async def _write(self, verb: Callable[[Scripts], Script[T]], *, sync: bool = True, shared: bool = False) -> T:
        database = self._database or self._opened()
        return await database.write(lambda: self._sealed(verb(database.scripts)), sync=sync, shared=shared)

    async def _read(self, verb: Callable[[Scripts], Script[T]]) -> T:
        database = self._database or self._opened()
        return await database.read(lambda: self._sealed(verb(database.scripts)))

    def _sealed(self, script: Script[T]) -> Script[T]:
        return script if self._sealing is None else through(script, self._sealing)

    def _opened(self) -> Database:
        with self._lock:
            self._database = self._database or self._open()
            if self._sealer.active and self._sealing is None:
                self._sealing = Sealing(self._database.scripts, self._sealer)
            return self._database

    def _closed(self) -> Database | None:
        with self._lock:
            database, self._database = self._database, None
            return database

    async def _content(self, verb: Callable[[Scripts], Script[T]]) -> T:
        try:
            return await self._read(verb)
        except Damaged as error:
            run, checkpoint, reason = error.facts.get("run"), error.facts.get("checkpoint"), str(error)
            if run is not None and checkpoint is not None and not error.facts.get("known"):
                with contextlib.suppress(NotFound):
                    await self._write(lambda s: s.quarantine(run, checkpoint, reason))
            raise


def pruning(scripts: Scripts, sealer: Sealer) -> Pruning:
    """Return the moves of a pruning in the dialect of the scripts."""
    return Pruning(scripts.dialect, scripts.sql, sealer)


def mark(scripts: Scripts, *, sealer: Sealer, survey: Survey, run: RunId, before: int) -> Script[int | None]:
    """Follow a page of a run's checkpoints."""
    return pruning(scripts, sealer).mark(survey, run, before)


def encoded_content(checkpoint: Checkpoint, head: Head | None, *, frozen: bool) -> Encoded:
    """Return a checkpoint's body and requests as text. ``ValueError`` if they are no JSON."""
    requests = [r.model_dump(mode="json") for r in checkpoint.requests]
    known = None if head is None else head.known
    return encode({"body": checkpoint.body, "requests": requests}, known=known, frozen=frozen)

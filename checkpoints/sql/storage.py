"""The storage ports over SQL scripts, independent of the database that runs them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Self, TypeVar

from checkpoints import rules
from checkpoints.claims import RENEW_SECONDS, TTL, ClaimRenewer
from checkpoints.config import Needs
from checkpoints.content.chunks import hashes_in, hashes_in_chunk
from checkpoints.content.encoder import CachedEncoding, EncoderCache, TooMuchToEncode
from checkpoints.content.encryption import Encryptor, encryptor_of
from checkpoints.errors import (
    CheckpointsError,
    Damaged,
    Incompatible,
    InvalidValue,
    NotFound,
    StorageFailed,
    raise_if_driver_failed,
)
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_checkpoint_id
from checkpoints.limits import check, check_commit, check_label, cleaned, findable
from checkpoints.records import (
    FORMAT,
    Answer,
    Checkpoint,
    CheckpointFilter,
    CheckpointInfo,
    Claim,
    Commit,
    Event,
    Json,
    Phase,
    RunFacts,
    RunInfo,
)
from checkpoints.sql.claims import ClaimedRun, DueLook, SideStatement, renew_until_sure
from checkpoints.sql.durability import must_sync
from checkpoints.sql.reads import ReadScripts, Removed, Script, listed_runs, remove_run
from checkpoints.sql.statements import DELETE_CHECKPOINTS, DELETE_CHUNKS, SELECT_ROOTS, SQLITE, Rows, Statements, among
from checkpoints.sql.writes import BaseGone, Database, PreparedCommit, Scripts, prepared
from checkpoints.storage import Serves

T = TypeVar("T")

NO_LIMIT = 2**62
HERE = 256_000
"""Bytes of a checkpoint that are encoded on an event loop, more in a thread: about 25 ms of processor time."""
ENCODE_SECONDS = 60.0
"""Seconds that encoding a checkpoint in a thread may take."""


class SqlStorage(ABC):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` over a database that is opened at first use.

    Every method raises ``StorageFailed`` for an error of the database's driver.
    """

    def __init__(self, encryptor: Encryptor | None = None) -> None:
        """``encryptor`` encrypts what is stored; without one content is stored in plain text."""
        self.encryptor = encryptor or encryptor_of("")
        self._place = type(self).__name__  # For errors.
        self._lock = Lock()
        self._database: Database | None = None
        self._clock: tuple[float, datetime] | None = None
        self._encoder_cache = EncoderCache()
        self.renewer = ClaimRenewer(self, ttl=TTL, every=RENEW_SECONDS, persistent=False)
        """Renews the claims of runs that this process drives without a worker."""

    @abstractmethod
    def _open(self) -> Database:
        """Return the opened database."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End threads and connections. The storage opens them again at its next use."""
        if self.renewer.runs:
            await asyncio.to_thread(self.renewer.close)
        database = self._closed()
        if database is not None:
            await database.aclose()

    async def aclose_loop(self) -> None:
        """End what belongs to this event loop; other loops, and this one at its next use, are not affected."""
        if self._database is not None:
            await self._database.aclose_loop()

    def now(self) -> datetime:
        """Return the database's time, aware, UTC; this machine's until ``look`` was awaited."""
        if self._clock is None:
            return datetime.now(UTC)
        read_at, theirs = self._clock
        return theirs + timedelta(seconds=time.monotonic() - read_at)

    async def look(
        self, *, suspects: int = 0, serves: Serves | None = None, beside: Sequence[SideStatement] = ()
    ) -> DueLook:
        """Read in one transaction whether there is something to do for a worker; at most so many ``suspects``.
        ``beside``: what is done in the same one; only reads on SQLite.

        ``now()`` follows the database's time from then on, whatever this machine's clock does.
        """
        found = await self._read(lambda s: s.look(suspects, serves, [one.statement for one in beside]))
        self._clock = time.monotonic(), found.now
        for one, rows in zip(beside, found.beside, strict=True):
            one.hear(rows)
        return found

    # CheckpointStorage

    async def save(self, checkpoint: Checkpoint) -> CheckpointId:
        """See ``CheckpointStorage.save``."""
        await self.commit(Commit(run=checkpoint.run, checkpoint=checkpoint))
        return checkpoint.id

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """See ``CheckpointStorage.load``."""
        return await self._content(lambda s: s.load(findable(run), findable(checkpoint)))

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """See ``CheckpointStorage.get_latest``."""
        return await self._content(lambda s: s.latest(findable(run)))

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50, where: CheckpointFilter | None = None
    ) -> Sequence[CheckpointInfo]:
        """See ``CheckpointStorage.list_checkpoints``."""
        chosen = (NO_LIMIT if before is None else before, limit, where or CheckpointFilter())
        return await self._read(lambda s: s.listing(findable(run), *chosen))

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """See ``CheckpointStorage.list_checkpoint_ids``."""
        return await self._read(lambda s: s.ids(findable(run)))

    async def run_of(self, checkpoint: CheckpointId) -> RunId | None:
        """See ``FindsRuns.run_of``."""
        return await self._read(lambda s: s.run_of(findable(checkpoint)))

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """See ``CheckpointStorage.delete``."""
        return await self._write(lambda s: s.delete(findable(run), findable(checkpoint)))

    async def prune(self, run: RunId, checkpoints: Collection[CheckpointId]) -> int:
        """See ``CheckpointStorage.prune``. Marks outside of the transaction that removes: see ``pruning``."""
        survey = await self._read(lambda s: pruning(s).survey(findable(run), [*map(findable, checkpoints)]))
        if survey is None:
            return 0
        for relative in survey.runs if survey.unreached else ():
            before: int | None = NO_LIMIT
            while before is not None and survey.unreached:
                before = await self._read(partial(mark, survey=survey, run=relative, before=before))
        return await self._write(lambda s: pruning(s).sweep(survey))

    async def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> None:
        """See ``CheckpointStorage.quarantine``."""
        await self._write(lambda s: s.quarantine(findable(run), findable(checkpoint), cleaned(reason)))

    async def set_label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> None:
        """See ``CheckpointStorage.set_label``."""
        check_label(label)
        await self._write(lambda s: s.label(findable(run), findable(checkpoint), label))

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """See ``CheckpointStorage.fork``."""
        check("run id", new_run)
        await self.load(run, checkpoint)
        copy = new_checkpoint_id()
        await self._write(lambda s: s.fork(findable(run), findable(checkpoint), new_run, copy))
        return await self.load(new_run, copy)

    # Journal

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """See ``Journal.commit``."""
        check_commit(commit)
        try:
            given = await prepare(commit, claim, self._encoder_cache.get(commit.run))
            database = self._database or self._opened()
            make = partial(database.scripts.commit, given)
            try:
                seq = await database.write(make, sync=must_sync(commit), shared=True, writer=commit.run)
            except BaseGone:
                self._encoder_cache.forget(commit.run)
                return await SqlStorage.commit(self, commit, claim=claim)
        except BaseException as error:
            self._encoder_cache.forget(commit.run)
            raise_if_driver_failed(error, self._place)
            raise
        self._encoder_cache.update(commit, given.encoded)
        return seq

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """See ``Journal.read_events``."""
        return await self._read(lambda s: s.events(findable(run), after, limit))

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``Journal.read_answers``."""
        return await self._read(lambda s: s.answers(findable(run)))

    async def read_past_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``RemembersAnswers.read_past_answers``."""
        return await self._read(lambda s: s.past_answers(findable(run)))

    async def answer(self, run: RunId, key: RequestKey, value: Json, *, by: str | None = None) -> None:
        """Accept an answer to a pending request and make the run ready.

        ``NotFound``; ``AlreadyAnswered``; ``Conflict`` while a reply takes effect; ``InvalidValue`` for a value that
        does not fit the request's schema. Nothing is written then.
        """
        given = Answer(key=findable(key), value=value, by=by)
        await self._write(lambda s: s.accept_answer(findable(run), given))

    # Runs

    async def list_runs(
        self,
        *,
        workflow: WorkflowId | None = None,
        phase: Phase | None = None,
        before: RunInfo | None = None,
        limit: int = 50,
    ) -> Sequence[RunInfo]:
        """See ``Runs.list_runs``."""
        return await self._read(lambda s: listed_runs(s.dialect, workflow, phase, before, limit))

    # Claims

    async def claim(
        self, run: RunId, *, worker: str, ttl: float, suspects: bool = True, serves: Serves | None = None
    ) -> Claim | None:
        """See ``Claims.claim``. Without ``suspects``: not a run that may kill its workers (``rules.is_suspect``).

        ``serves``: as in ``claim_due``.
        """
        check("worker name", worker)
        claimed = await self._write(lambda s: s.claim_runs([findable(run)], worker, ttl, suspects, serves), sync=False)
        return claimed[0].claim if claimed else None

    async def claim_due(
        self,
        *,
        worker: str,
        ttl: float,
        limit: int,
        runs: Sequence[RunId] | None = None,
        serves: Serves | None = None,
        most: int | None = None,
        takeover: bool = True,
    ) -> Sequence[Claim]:
        """See ``Claims.claim_due``. ``most``: only runs of this priority at most. Without ``takeover``: none that has
        an expired claim.
        """
        check("worker name", worker)
        if limit < 1:
            return []
        if runs is None:
            claimed = await self._write(lambda s: s.claim_due(worker, ttl, limit, most, serves, takeover), sync=False)
        else:
            wanted = [findable(run) for run in dict.fromkeys(runs)][:limit]
            claimed = await self._write(
                lambda s: s.claim_runs(wanted, worker, ttl, False, serves, takeover), sync=False
            )
        return [self._with_facts(one) for one in claimed]

    async def take(
        self, run: RunId, *, worker: str, ttl: float, head: CheckpointId | None, stopped: bool = False
    ) -> Claim:
        """See ``Claims.take``."""
        return await self._write(lambda s: s.take(findable(run), worker, ttl, head, stopped=stopped), sync=False)

    async def begin(self, commit: Commit, *, worker: str, ttl: float) -> Claim:
        """See ``Claims.begin``."""
        check_commit(commit)
        given = await prepare(commit, None, None)
        claim = await self._write(lambda s: s.begin(given, worker, ttl), sync=must_sync(commit))
        self._encoder_cache.update(commit, given.encoded)
        return claim

    async def renew(self, claim: Claim, *, ttl: float) -> Claim:
        """See ``Claims.renew``."""
        return await self._write(lambda s: s.renew(claim, ttl), sync=False)

    async def renew_many(self, claims: Sequence[Claim], *, ttl: float) -> frozenset[str]:
        """Extend claims at once and return the tokens of those that are lost: an expired one is not, while no one else
        has taken its run.
        """
        if not claims:
            return frozenset()
        return await renew_until_sure(lambda some: self._write(lambda s: s.renew_many(some, ttl), sync=False), claims)

    async def release(self, claim: Claim) -> None:
        """See ``Claims.release``."""
        await self._write(lambda s: s.release(claim), sync=False)

    async def take_turn(self, name: str, every: float) -> float:
        """See ``BoundRecorder.take_turn``."""
        return await self._write(lambda s: s.take_turn(name, every), sync=False)

    async def due(
        self, *, limit: int = 500, suspect: bool | None = None, serves: Serves | None = None
    ) -> Sequence[RunId]:
        """See ``Claims.due``. ``suspect``: only those that may kill their workers, or only the others."""
        return await self._read(lambda s: s.due(limit, suspect, serves))

    async def trust(self, claim: Claim) -> None:
        """Reset the run's count of takeovers: it has run long enough not to be a suspect."""
        await self._write(lambda s: s.trust(claim), sync=False)

    async def expire_claims(self, *, worker_prefix: str) -> Sequence[RunId]:
        """Expire every claim of workers with this name prefix, for a caller that knows they have ended; return whose
        claims they were.
        """
        return await self._write(lambda s: s.expire(worker_prefix))

    async def read_run(self, run: RunId) -> RunFacts:
        """Return what running the run needs. ``NotFound``."""
        return await self._read(lambda s: s.facts(findable(run)))

    async def read_needs(self, run: RunId) -> Needs:
        """Return what else depends on the run's checkpoints: whether it is open, and which were forked."""
        return await self._read(lambda s: s.needs(findable(run)))

    async def forget_run(self, run: RunId, removed: Removed | None) -> bool:
        """Remove the content that is no longer needed after a run was removed, and return whether one was."""
        self._encoder_cache.forget(run)
        if removed is not None and removed.relative is not None:
            await self.prune(removed.relative, [])
        return removed is not None

    # Internals

    def _with_facts(self, claimed: ClaimedRun) -> Claim:
        claim = claimed.claim
        try:
            facts = self._opened().scripts.facts_of(claim.run, *claimed.facts, claim.attempts)
        except CheckpointsError:
            return claim
        return claim.model_copy(update={"facts": facts})

    async def _write(
        self, verb: Callable[[Scripts], Script[T]], *, sync: bool = True, shared: bool = False, writer: str = ""
    ) -> T:
        try:
            database = self._database or self._opened()
            return await database.write(lambda: verb(database.scripts), sync=sync, shared=shared, writer=writer)
        except Exception as error:
            raise_if_driver_failed(error, self._place)
            raise

    async def _read(self, verb: Callable[[Scripts], Script[T]]) -> T:
        try:
            database = self._database or self._opened()
            return await database.read(lambda: verb(database.scripts))
        except Exception as error:
            raise_if_driver_failed(error, self._place)
            raise

    def _opened(self) -> Database:
        with self._lock:
            self._database = self._database or self._open()
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
                with contextlib.suppress(NotFound, StorageFailed):
                    await self._write(lambda s: s.quarantine(findable(run), findable(checkpoint), cleaned(reason)))
            raise


async def prepare(commit: Commit, claim: Claim | None, head: CachedEncoding | None) -> PreparedCommit:
    """Encode a commit, a large one beside the event loop. ``InvalidValue`` if that takes longer than
    ``ENCODE_SECONDS``: no thread can be ended, so that one continues, and nothing of the commit is written.
    """
    try:
        return prepared(commit, claim, head, HERE)
    except TooMuchToEncode:
        pass
    try:
        async with asyncio.timeout(ENCODE_SECONDS):
            return await asyncio.to_thread(prepared, commit, claim, head)
    except TimeoutError as error:
        words = f"encoding the checkpoint took longer than {ENCODE_SECONDS:g} s, and nothing was written"
        remedy = "keep large values elsewhere, and their address in the run"
        raise InvalidValue(f"{words}: {remedy}", field="body") from error


def pruning(scripts: Scripts) -> Pruning:
    """Return the phases of a pruning in the dialect of the scripts."""
    return Pruning(scripts.dialect, scripts.sql, scripts.encryptor)


def mark(scripts: Scripts, *, survey: Survey, run: RunId, before: int) -> Script[int | None]:
    """Follow a page of a run's checkpoints."""
    return pruning(scripts).mark(survey, run, before)


class StandaloneStorage(SqlStorage):
    """The ports over the tables of ``checkpoints.sql.sqlite_schema``, which have no table of people."""

    async def delete_run(self, run: RunId, *, force: bool = False) -> bool:
        """See ``Runs.delete_run``."""
        return await self.forget_run(
            run, await self._write(lambda s: remove_run(s.dialect, findable(run), force=force))
        )


def standalone_scripts(encryptor: Encryptor) -> Scripts:
    """Return the scripts for these tables."""
    return Scripts(SQLITE, Statements(SQLITE, users=None), encryptor)


# Mark and sweep: removes checkpoints and the chunks that no remaining checkpoint refers to.

PAGE = 256
"""Roots, chunks or ids per statement."""


@dataclass(kw_only=True)
class Survey:
    """The state of a mark-and-sweep over one family of runs."""

    family: str
    run: RunId
    """The run whose checkpoints are removed."""
    runs: list[RunId]
    doomed: frozenset[CheckpointId]
    unreached: set[str]
    """Names of chunks."""
    reached: set[str] = field(default_factory=set)
    seen: set[CheckpointId] = field(default_factory=set)

    def give_up(self) -> None:
        """Keep every chunk."""
        self.unreached = set()


class Pruning(ReadScripts):
    """The three phases in one dialect."""

    def survey(self, run: RunId, doomed: Collection[CheckpointId]) -> Script[Survey | None]:
        """Return a family's chunks and runs; None if there is no such run."""
        (families,) = yield [(self.sql.family, (run,))]
        if not families:
            return None
        family = families[0][0]
        # Chunks first: those of later commits are not in the survey, so they stay.
        (hashes,) = yield [(self.sql.hashes, (family,))]
        (runs,) = yield [(self.sql.relatives, (family,))]
        found = {hash_ for (hash_,) in hashes}
        return Survey(family=family, run=run, runs=[id_ for (id_,) in runs], doomed=frozenset(doomed), unreached=found)

    def mark(self, survey: Survey, run: RunId, before: int) -> Script[int | None]:
        """Follow a page of a run's checkpoints and return where the next one starts, None after the last."""
        (rows,) = yield [(self.sql.roots, (run, before, PAGE))]
        survey.seen.update(row[1] for row in rows)
        doomed = survey.doomed if run == survey.run else ()
        yield from self._follow(survey, [row[:4] for row in rows if row[1] not in doomed])
        return rows[-1][4] if len(rows) == PAGE else None

    def sweep(self, survey: Survey) -> Script[int]:
        """Remove the checkpoints and the unreachable chunks, and return how many checkpoints were removed."""
        run, doomed = survey.run, survey.doomed
        runs = yield from self._lock(survey.family)
        (rows,) = yield [(self.sql.needed, (run, run, run))]
        rules.refuse_needed(run, [id_ for (id_,) in rows], doomed)
        removed = 0
        for ids in pages(doomed):
            (rows,) = yield [among(self.dialect, DELETE_CHECKPOINTS, ids, run)]
            removed += len(rows)
        if survey.unreached:
            yield from self._follow_new(survey, runs)
        for hashes in pages(survey.unreached):
            yield [among(self.dialect, DELETE_CHUNKS, hashes, survey.family)]
        return removed

    def _lock(self, family: str) -> Script[list[RunId]]:
        """Lock every run of the family, including forks created while waiting, and return their ids."""
        runs: list[RunId] = []
        while True:
            (rows,) = yield [(self.sql.lock_relatives, (family,))]
            found = [id_ for (id_,) in rows]
            if found == runs or not self.dialect.lock:
                return found
            runs = found

    def _follow_new(self, survey: Survey, runs: Iterable[RunId]) -> Script[None]:
        new: set[CheckpointId] = set()
        for run in runs:
            (rows,) = yield [(self.sql.ids, (run,))]
            new.update(id_ for (id_,) in rows if id_ not in survey.seen)
        for ids in pages(new):
            (rows,) = yield [among(self.dialect, SELECT_ROOTS, ids)]
            yield from self._follow(survey, rows)

    def _follow(self, survey: Survey, roots: Rows) -> Script[None]:
        if not survey.unreached:
            return
        try:
            wanted = {hash_ for root in roots for hash_ in self._hashes(*root)} - survey.reached
            while wanted:
                wanted = (yield from self._level(survey, wanted)) - survey.reached
        except (Damaged, Incompatible):
            survey.give_up()

    def _level(self, survey: Survey, wanted: set[str]) -> Script[set[str]]:
        """Reach some chunks and return the hashes inside them."""
        inside: set[str] = set()
        for hashes in pages(wanted):
            found = yield from self.chunks(survey.family, hashes)
            if len(found) < len(hashes):
                raise Damaged("a chunk of a checkpoint is missing")
            for data in found.values():
                inside.update(hashes_in_chunk(data))
        survey.reached |= wanted
        survey.unreached.difference_update(self.encryptor.names(survey.family, wanted))
        return inside

    def _hashes(self, run: str, checkpoint: str, format_: int, body: str) -> list[str]:
        """Return the hashes a stored checkpoint refers to. ``Incompatible`` for a format this code cannot follow."""
        if format_ > FORMAT:
            raise Incompatible(f"a checkpoint has format {format_}, this code reads up to {FORMAT}")
        return hashes_in(self.encryptor.decrypt(body, "checkpoint", run, checkpoint))


def pages(ids: Iterable[str]) -> Iterable[list[str]]:
    """Return the ids in lists of at most ``PAGE``, in order."""
    ordered = sorted(ids)
    return (ordered[at : at + PAGE] for at in range(0, len(ordered), PAGE))

"""What each reading verb does, as generators: they yield batches of statements and get their rows back."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

from checkpoints import rules
from checkpoints.canonical import loads
from checkpoints.chunks import decode, hashes_in, hashes_in_chunk, unbound, verified
from checkpoints.errors import Damaged, NotFound
from checkpoints.ids import CheckpointId, RequestKey, RunId
from checkpoints.records import (
    ENDED,
    Answer,
    Checkpoint,
    CheckpointFilter,
    CheckpointInfo,
    Event,
    Phase,
    Reason,
    Request,
    RunFacts,
)
from checkpoints.retention import Needs
from checkpoints.seal import Locked, sealed_in
from checkpoints.sql import COLUMNS, Dialect, Rows, Statement, Statements, list_checkpoints, select_chunks

T = TypeVar("T")
Script: TypeAlias = Generator[Sequence[Statement], list[Rows], T]

NEVER = datetime.fromtimestamp(0, UTC)
UNREADABLE = "its metadata cannot be read"
LEVEL = 30_000
"""Chunks read by one statement; databases limit the number of parameters."""


@dataclass(frozen=True)
class Reading:
    """The reading verbs in one dialect."""

    dialect: Dialect
    sql: Statements

    def facts(self, run: RunId) -> Script[RunFacts]:
        """Read what driving a run needs."""
        (rows,) = yield [(self.sql.facts, (run,))]
        if not rows:
            raise NotFound("There is no such run", run=run)
        id_, workflow, version, message, n, attempts = rows[0]
        try:
            read = loads(message) if isinstance(message, str | bytes) else message
        except ValueError as error:
            raise Damaged("the run's input cannot be read: restore the database from a backup", run=run) from error
        if sealed_in(read):
            raise Locked("the run's input is encrypted: set WFDASH_ENCRYPTION_KEYS")
        return RunFacts(run=id_, workflow=workflow, version=version, input=read, n=n, attempts=attempts)

    def needs(self, run: RunId) -> Script[Needs]:
        """Read what depends on a run's checkpoints."""
        phases, origins = yield [(self.sql.phase, (run,)), (self.sql.origins, (run,))]
        ended = bool(phases) and Phase(phases[0][0]) in ENDED
        return Needs(ended=ended, origins=frozenset(id_ for (id_,) in origins))

    def load(self, run: RunId, checkpoint: CheckpointId) -> Script[Checkpoint]:
        """Read one checkpoint with its chunks."""
        (rows,) = yield [(self.sql.load, (run, checkpoint))]
        if not rows:
            raise NotFound(run=run, checkpoint=checkpoint)
        return (yield from self._content(rows[0]))

    def latest(self, run: RunId) -> Script[Checkpoint | None]:
        """Read the newest checkpoint with its chunks."""
        (rows,) = yield [(self.sql.latest, (run,))]
        return (yield from self._content(rows[0])) if rows else None

    def _content(self, row: tuple[Any, ...]) -> Script[Checkpoint]:
        info = self._info(row)
        rules.refuse_unreadable(info)
        try:
            root = unbound(row[-1], rules.row_of(info))
            content = decode(root, (yield from self._chunks(info.run, root)))
            requests = tuple(Request.model_validate(request) for request in content["requests"])
            return Checkpoint.model_construct(**dict(info), body=content["body"], requests=requests)
        except Damaged as error:
            error.facts.update(run=info.run, checkpoint=info.id)
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged("the stored checkpoint lacks its parts", run=info.run, checkpoint=info.id) from error

    def _chunks(self, run: str, root: str) -> Script[dict[str, bytes]]:
        """Read a root's chunks, one level of the tree per statement."""
        chunks: dict[str, bytes] = {}
        wanted = hashes_in(root)
        if wanted:
            ((family,),) = (yield [(self.sql.family, (run,))])[0]
        while wanted:
            now, wanted = wanted[:LEVEL], wanted[LEVEL:]
            (rows,) = yield [(select_chunks(self.dialect, len(now)), (family, *now))]
            level = verified(rows)
            chunks.update(level)
            wanted += {key for data in level.values() for key in hashes_in_chunk(data)} - chunks.keys()
        return chunks

    def listing(self, run: RunId, before: int, limit: int, where: CheckpointFilter) -> Script[list[CheckpointInfo]]:
        """Read metadata, newest first."""
        (rows,) = yield [list_checkpoints(self.dialect, run, before, limit, where)]
        return [self._info(row) for row in rows]

    def ids(self, run: RunId) -> Script[list[CheckpointId]]:
        """Read all ids, newest first."""
        (rows,) = yield [(self.sql.ids, (run,))]
        return [CheckpointId(id_) for (id_,) in rows]

    def events(self, run: RunId, after: int, limit: int) -> Script[list[Event]]:
        """Read events in order."""
        (rows,) = yield [(self.sql.events, (run, after, limit))]
        return [self._event(run, *row) for row in rows]

    def answers(self, run: RunId) -> Script[dict[RequestKey, Answer]]:
        """Read answers the engine has not taken."""
        (rows,) = yield [(self.sql.answers, (run,))]
        return {RequestKey(row[0]): self._answer(*row) for row in rows}

    def now(self) -> Script[datetime]:
        """Read the database's clock."""
        ((now,),) = (yield [(self.sql.now, ())])[0]
        return self.dialect.time(now)  # type: ignore[no-any-return]

    def _info(self, row: tuple[Any, ...]) -> CheckpointInfo:
        facts = dict(zip(COLUMNS, row, strict=False))
        try:
            facts["reason"] = Reason(facts["reason"])
            facts["created"] = self.dialect.time(facts["created"])
            facts["clean"] = bool(facts["clean"])
        except (ValueError, TypeError):
            facts.update(reason=Reason.STEP, created=NEVER, clean=False, flaw=UNREADABLE)
        return CheckpointInfo.model_construct(**facts)

    def _event(self, run: RunId, kind: str, step: str | None, data: str, seq: int, at: Any) -> Event:
        time = self.dialect.time(at)
        return Event.model_construct(kind=kind, step=step, data=loads(data), run=run, seq=seq, at=time)

    def _answer(self, key: str, value: str | None, by: str | None, at: Any) -> Answer:
        read = None if value is None else loads(value)
        return Answer.model_construct(key=RequestKey(key), value=read, by=by, at=self.dialect.time(at))

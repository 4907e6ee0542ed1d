"""The write operations as generators: they yield batches of statements and receive their rows.

No database is called here, so SQLite's writer thread and PostgreSQL's async pool run the very same scripts. A script
that raises leaves nothing behind: its executor rolls back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any, Protocol, TypeAlias, TypeVar

from checkpoints import rules
from checkpoints.content.canonical_json import dumps
from checkpoints.content.encoder import UNBOUNDED, CachedEncoding, Encoded, encode
from checkpoints.content.encryption import Encryptor
from checkpoints.errors import ClaimLost, Conflict, NotFound, Unsupported
from checkpoints.events import UNENCRYPTED, EventKind
from checkpoints.ids import CheckpointId, RunId, new_request_id
from checkpoints.records import (
    ENDED,
    Answer,
    Checkpoint,
    Claim,
    Commit,
    EventDraft,
    Phase,
    Reason,
    Request,
    Standing,
    value_object,
)
from checkpoints.rules import times_of
from checkpoints.sql.claims import ClaimScripts
from checkpoints.sql.reads import Script as Script
from checkpoints.sql.statements import (
    Dialect,
    Rows,
    Statement,
    insert,
    insert_chunks,
)
from checkpoints.sql.tables import (
    CHECKPOINT,
    CHECKPOINT_VALUES,
    EVENT,
    INFO,
    checkpoint_row,
    copied,
    effect_row,
    event_row,
    request_row,
    run_row,
)

# Commits with everything encoded that can be before a database is asked. Pure.


def prepared(commit: Commit, claim: Claim | None, head: CachedEncoding | None, most: int = UNBOUNDED) -> PreparedCommit:
    """Return a commit with everything encoded that can be. ``ValueError`` if something is not valid JSON.

    ``TooMuchToEncode`` if more than ``most`` bytes of its checkpoint have to be.
    """
    point, frozen = commit.checkpoint, commit.frozen
    encoded = None if point is None else encoded_content(point, head, frozen=frozen, most=most)
    events = stored_events(commit.events)
    base = head.id if head is not None and encoded is not None and encoded.reuses_chunks else None
    times = times_of(commit.events)
    return PreparedCommit(commit=commit, claim=claim, encoded=encoded, events=events, base=base, times=times)


def encoded_content(
    checkpoint: Checkpoint, head: CachedEncoding | None, *, frozen: bool, most: int = UNBOUNDED
) -> Encoded:
    """Return a checkpoint's body and requests as text. ``ValueError`` if they are not valid JSON."""
    requests = [r.model_dump(mode="json") for r in checkpoint.requests]
    known = None if head is None else head.known
    return encode({"body": checkpoint.body, "requests": requests}, known=known, frozen=frozen, most=most)


T = TypeVar("T")

EXTEND_BELOW = 0.5
"""Remaining share of its ttl below which a commit extends a claim: extending each time would cost a log page."""
WRITTEN: list[Statement] = [("SELECT 1 WHERE changes()", ())]
"""On SQLite: whether the statement before has written a row."""
KIND, DATA = itemgetter(0), itemgetter(2)
"""Take its kind and its data from a stored event."""
ON_RUN = frozenset({EventKind.RUN_TITLED, EventKind.USAGE})
"""Events of which the run's row holds something, too."""
PLAIN = frozenset({str, int, bool, NoneType})
"""Types of values that every database takes unchanged."""
RunCounters: TypeAlias = tuple[int, int, str, str]
"""A run's seq, n, family and workflow after the increment."""


class BaseGone(Exception):
    """The checkpoint whose chunks a commit reuses is gone or damaged: write in full."""


@value_object(kw_only=True)
class PreparedCommit:
    """A commit with everything encoded that can be, so that the writer has little left to do."""

    commit: Commit
    claim: Claim | None
    encoded: Encoded | None
    events: tuple[StoredEvent, ...]
    base: CheckpointId | None = None
    """The stored checkpoint whose chunks this commit reuses and leaves out."""
    times: tuple[datetime | None, ...] = ()
    """The time of each event, None for that of the commit; empty if none has one of its own."""


@dataclass(frozen=True)
class Scripts(ClaimScripts):
    """All operations in one dialect."""

    def commit(self, given: PreparedCommit) -> Script[int]:
        """Write a commit and return the run's last seq."""
        return self._commit_whole(given) if self.dialect.writes_in_one else self._commit_parts(given)

    def _commit_whole(self, given: PreparedCommit) -> Script[int]:
        whole = self._whole_step(given)
        if whole is not None:
            (written,) = yield whole
            if written:
                return int(written[0][0])
        return (yield from self._commit_parts(given))

    def _commit_parts(self, given: PreparedCommit) -> Script[int]:
        commit = given.commit
        seq, n, family, workflow = yield from self._move(given)
        ids = (yield from self._record_answers(commit)) if commit.answered else {}
        batch: list[Statement] = [(self.sql.close, (commit.run, key)) for key in commit.closed]
        if commit.restores:
            batch.append((self.sql.supersede, (commit.run,)))
        if commit.opened:
            rows = yield [*batch, *(self._open_request(commit.run, workflow, request) for request in commit.opened)]
            ids |= {key: id_ for (key, id_), *_ in rows[len(batch) :]}
            batch = []
        if given.events:
            linked = stored_events(rules.link_requests(commit.events, ids)) if ids else given.events  # type: ignore[arg-type]
            batch.append(insert_events(self.dialect, self.encryptor, commit.run, linked, given.times, seq))
        if commit.effects:
            yield from self._effects(commit, n)
        if self.sql.entitle and not ON_RUN.isdisjoint(map(KIND, given.events)):
            if (title := rules.title_in(commit.events)) is not None:
                # Unlisted, so that the sweep indexes the words of the title.
                encrypted = self.encryptor.encrypt(title, "run.own_title", commit.run)
                batch.append((self.sql.entitle, (encrypted, False, commit.run)))
            if (used := rules.all_used(commit.events)) is not None:
                batch.append((self.sql.spend, (*used, commit.run)))
        if commit.standing is not None and commit.standing.phase in rules.TIMED:
            batch.append((self.sql.wake_if_answered, (commit.run, commit.run)))
        if commit.checkpoint is not None and given.encoded is not None:
            if given.base is not None:
                batch.append((self.sql.good, (commit.run, given.base)))
            rows = yield from self._checkpoint(commit.checkpoint, given.encoded, seq, family, batch)
            if given.base is not None and not rows[-1]:
                raise BaseGone(given.base)
        elif batch:
            yield batch
        return seq

    def _whole_step(self, given: PreparedCommit) -> WholeBatch | None:
        """Return the one statement that writes a commit; None if it does more than a step that reuses no chunks.

        Nor can it number events that are encrypted, because an event's number is part of what it is encrypted by.
        """
        commit, claim, checkpoint, encoded = given.commit, given.claim, given.commit.checkpoint, given.encoded
        if claim is None or checkpoint is None or encoded is None or encoded.chunks or given.base or given.times:
            return None
        if commit.standing or commit.opened or commit.closed or commit.answered or commit.effects or commit.restores:
            return None
        if not ON_RUN.isdisjoint(map(KIND, given.events)) or any(map(self.encryptor.changes, map(DATA, given.events))):
            return None
        row = self._checkpoint_row(checkpoint, encoded, 0)
        held = (commit.run, claim.epoch, claim.ttl * EXTEND_BELOW, claim.token)
        moved = (len(given.events), checkpoint.n, checkpoint.n)
        params = (*held, *moved, *KNOWN_VALUES(row), *chain.from_iterable(given.events))
        return WholeBatch([(write_step(self.dialect, len(given.events)), params)])

    def _move(self, given: PreparedCommit) -> Script[RunCounters]:
        """Check the fence, advance the run's counters and phase, renew or drop the claim, and return the counters."""
        commit, claim = given.commit, given.claim
        n = 0 if commit.checkpoint is None else commit.checkpoint.n
        params = (len(commit.events), n, n, int(commit.checkpoint is None))
        if commit.standing is not None:
            params += self._standing(commit.run, commit.standing)
        if claim is not None:
            return (yield from self._move_fenced(commit, claim, params))
        statement = (self.sql.move if commit.standing is None else self.sql.set_phase, (*params, commit.run))
        (rows,) = yield [statement]
        if not rows:
            # Who says in which phase the run is left leaves it to workers; everyone else drives it themselves.
            _, rows = yield [self._new_run(commit, for_workers=commit.standing is not None), statement]
        return rows[0]

    def _move_fenced(self, commit: Commit, claim: Claim, params: tuple[Any, ...]) -> Script[RunCounters]:
        run, own = (commit.run, claim.epoch), (commit.run, claim.token)
        params += run
        if commit.standing is None:
            fresh = (claim.ttl * EXTEND_BELOW, *own)
            batch = [(self.sql.move_alone, params), (self.sql.moved, fresh + run)]
            *_, moved = yield [(self.sql.move_fenced, params + fresh)] if self.dialect.writes_in_one else batch
            held: Rows = [(1,)]
            if moved and not moved[0][-1]:
                # No claim counts as one to extend: it may have been renewed while this waited for the run's row.
                (held,) = yield [(self.sql.extend, (claim.ttl, *own))]
        else:
            moved, held = yield [(self.sql.set_phase_fenced, params), (self.sql.release_live, own)]
        if not moved or not held:
            raise ClaimLost(run=commit.run)
        return moved[0][:4]

    def _record_answers(self, commit: Commit) -> Script[dict[str, str]]:
        """Record first answers and return the ids of the requests they answer."""
        known = yield from self.answers(commit.run)
        found: dict[str, str] = {}
        for given in commit.answered:
            if not rules.is_first_answer(commit.run, given, known.get(given.key)):
                continue
            (rows,) = yield [(self.sql.pending, (given.by, commit.run, given.key))]
            for id_, decided, by, now in rows:
                rules.refuse_decided(commit.run, given.key, decided=bool(decided))
                yield self._answer_rows(id_, given, by, now)
                found[given.key] = id_
        return found

    def accept_answer(self, run: RunId, given: Answer) -> Script[None]:
        """Record the answer of someone who does not drive the run, with its event, and wake the run that waits for it.

        ``NotFound``, ``AlreadyAnswered``, ``Conflict``, ``InvalidValue``.
        """
        (moved,) = yield [(self.sql.move, (1, 0, 0, 1, run))]  # Locks the run.
        (rows,) = yield [(self.sql.pending, (given.by, run, given.key))]
        if not moved or not rows:
            raise NotFound("the run has no pending request of that key", run=run, key=given.key)
        id_, decided, by, now = rows[0]
        (((step, card, schema, for_workers),),) = yield [(self.sql.asked, (id_,))]
        known = (yield from self.answers(run)).get(given.key)
        if known is not None:
            raise rules.already_answered(known, run)
        rules.refuse_decided(run, given.key, decided=bool(decided))
        if for_workers and self.sql.names_verdict:
            text = "the dashboard's workers have this run: people answer it there, with the right to do so"
            raise Unsupported(text, run=run, key=given.key)
        rules.refuse_unfit(run, given, self._document(schema, "request", id_, "answer_schema"))
        facts: dict[str, Any] = {"subject": rules.card_subject(self._document(card, "request", id_, "card"), step)}
        facts |= {"key": given.key, "by": given.by, "verdict": rules.verdict_of(given.value), "request": id_}
        event = stored_events([EventKind.REQUEST_ANSWERED.draft(step, **facts)])
        yield self._answer_rows(id_, given, by, now)
        yield [
            insert_events(self.dialect, self.encryptor, run, event, (), moved[0][0]),
            (self.sql.wake_if_answered, (run, run)),
        ]

    def _answer_rows(self, request: str, given: Answer, by: Any, now: Any) -> list[Statement]:
        """Return the statements that insert the answer to a request without one. ``by``: as its row refers to them."""
        at = self.dialect.time(now)
        verdict = (rules.verdict_of(given.value),) if self.sql.names_verdict else ()
        bound = rules.answer_digest(request, given.key, given.value, by, at)
        value = self._encrypted(given.value, "answer", request, "value")
        params = (request, value, by, self.dialect.moment(at), bound, *verdict)
        return [(self.sql.answer, params), (self.sql.answered, (request,))]

    def _encrypted(self, value: Any, *row: str) -> str:
        """Return a document as stored in that row."""
        return self.encryptor.encrypt_document(text_of(value), *row)

    def _standing(self, run: RunId, standing: Standing) -> tuple[Any, ...]:
        error = standing.error
        retry = {"attempt": standing.attempt, "attempts": standing.attempts}
        return (
            standing.phase.value,
            self.dialect.moment(standing.wake_at),
            None if standing.output is None else self._encrypted(standing.output, "run", run, "output"),
            None if error is None else self.encryptor.encrypt_document(error.model_dump_json(), "run", run, "error"),
            text_of(retry) if standing.phase is Phase.RETRYING else None,
            int(standing.phase in ENDED),
        )

    def _new_run(self, commit: Commit, *, for_workers: bool) -> Statement:
        first = commit.checkpoint
        named = {} if first is None else {name: getattr(first, name) for name in ("workflow", "version", "engine")}
        return self.sql.new_run, self._parameters(run_row(commit.run, **named, for_workers=for_workers))

    def _parameters(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a row's values as its statement takes them: documents as text, times in the dialect."""
        return tuple([value if type(value) in PLAIN else self._parameter(value) for value in row.values()])

    def _parameter(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return self.dialect.moment(value)
        return text_of(value) if isinstance(value, dict | list) else value

    def _checkpoint(
        self, checkpoint: Checkpoint, encoded: Encoded, seq: int, family: str, rest: list[Statement]
    ) -> Script[list[Rows]]:
        chunks = []
        if encoded.chunks:
            chunks = insert_chunks(self.dialect, family, self.encryptor.encrypt_chunks(encoded.chunks, family))
        row = self._checkpoint_row(checkpoint, encoded, seq)
        written = [] if self.dialect.writes_in_one else WRITTEN
        rows = yield [(self.sql.checkpoint, CHECKPOINT_VALUES(row)), *written, *chunks, *rest]
        if not rows[len(written)]:
            (known,) = yield [(self.sql.known_checkpoint, (checkpoint.id,))]
            rules.refuse_taken(checkpoint, id_taken=bool(known))
        return rows

    def _checkpoint_row(self, checkpoint: Checkpoint, encoded: Encoded, seq: int) -> dict[str, Any]:
        counted = {"size": encoded.size, "seq": seq, "waiting": len(checkpoint.requests)}
        return self._stored(checkpoint_row(checkpoint, encoded.payload, **counted))

    def _stored(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a checkpoint's row as the statement takes it."""
        row["body"] = self.encryptor.encrypt(row["body"], "checkpoint", row["run"], row["id"])
        row["created"] = self.dialect.moment(row["created"])
        return row

    def _open_request(self, run: RunId, workflow: str, request: Request) -> Statement:
        id_ = new_request_id()
        row: dict[str, Any] = {**request_row(id_, run, workflow, request)}
        for name in ("card", "answer_schema"):
            row[name] = self._encrypted(row[name], "request", id_, name)
        return self.sql.open, self._parameters(row)

    def _effects(self, commit: Commit, n: int) -> Script[None]:
        for effect in commit.effects:
            result = self._encrypted(effect.result, "effect", commit.run, effect.key, "result")
            (rows,) = yield [(self.sql.effect_result, (effect.state, result, n, commit.run, effect.key))]
            if not rows:
                row = {**effect_row(commit.run, effect, n), "result": result}
                yield [(self.sql.effect, self._parameters(row))]

    def delete(self, run: RunId, checkpoint: CheckpointId) -> Script[bool]:
        """Delete a checkpoint and return whether there was one; its chunks stay until a pruning."""
        (rows,) = yield [(self.sql.delete, (run, checkpoint))]
        return bool(rows)

    def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId, copy: CheckpointId) -> Script[None]:
        """Create a run whose first checkpoint has the content of another's."""
        # Locked first: pruning the origin must not run between the read and the copy.
        families, rows = yield [(self.sql.lock_run, (run,)), (self.sql.load, (run, checkpoint))]
        if not rows:
            raise NotFound(run=run, checkpoint=checkpoint)
        origin = self._info(rows[0])
        named = {name: getattr(origin, name) for name in ("workflow", "version", "engine")}
        begun = run_row(new_run, **named, family=families[0][0], forked_from=checkpoint, for_workers=False)
        created, ((now,),) = yield [(self.sql.new_run, self._parameters(begun)), (self.sql.now, ())]
        if not created:
            raise Conflict("the new run already exists: fork under a fresh run id", run=new_run)
        made = {"id": copy, "run": new_run, "n": 1, "reason": Reason.FORK, "created": self.dialect.time(now), "seq": 0}
        row = self._stored(checkpoint_row(copied(origin, **made), self._payload(origin, rows[0][-1])))
        yield [(self.sql.checkpoint, CHECKPOINT_VALUES(row)), (self.sql.move, (0, 1, 1, 1, new_run))]

    def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> Script[None]:
        """Mark a checkpoint as unreadable."""
        (rows,) = yield [(self.sql.quarantine, (False, reason, run, checkpoint))]
        if not rows:
            raise NotFound(run=run, checkpoint=checkpoint)

    def label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> Script[None]:
        """Set a checkpoint's label, or remove it."""
        (rows,) = yield [(self.sql.label, (label, run, checkpoint))]
        if not rows:
            raise NotFound(run=run, checkpoint=checkpoint)

    def begin(self, given: PreparedCommit, worker: str, ttl: float) -> Script[Claim]:
        """Write a run's first checkpoint, claim the run, and return the claim."""
        yield [self._new_run(given.commit, for_workers=False)]
        claim = yield from self.take(given.commit.run, worker, ttl, None)
        yield from self._commit_parts(replace(given, claim=claim))
        return claim


class Database(Protocol):
    """A database that runs scripts, from any event loop and thread."""

    scripts: Scripts

    async def write(
        self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False, writer: str = ""
    ) -> T:
        """Return the result of a script run in a transaction; the other scripts in it cannot affect it.

        ``sync``: it must survive a power failure, also where ordinary steps need not; ``shared``: it is short and there
        may be many like it; ``writer``: who writes one after the other, if that is not the task.
        """

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""

    async def aclose(self) -> None:
        """End threads and connections once every queued script has finished."""

    async def aclose_loop(self) -> None:
        """End the connections that belong to this event loop."""


def text_of(value: Any) -> str:
    """Return JSON text."""
    return dumps(value).decode()


# A step's commit as one statement: it writes the run's counters, checkpoint and events, or nothing at all.

KNOWN = tuple(name for name in (*INFO, "body") if name != "seq")
"""What is known of a checkpoint's row before its commit: all but the number of its last event."""
KNOWN_VALUES = itemgetter(*KNOWN)


class WholeBatch(list[Statement]):
    """A batch of one statement that writes all of a commit and returns a row, or writes nothing and returns none.

    It also writes nothing where it breaks a constraint; that counts as no row.
    """


@lru_cache(maxsize=64)
def write_step(dialect: Dialect, events: int) -> str:
    """Return the statement that writes a step with so many events, and returns the number of the last one.

    Parameters: the run, its epoch, the seconds for which its claim must be good at least, the claim's token, the number
    of events, n twice; then ``KNOWN_VALUES`` of the checkpoint; then kind, step and data of each event.
    """
    fence = "SELECT id FROM checkpoints_run WHERE id=? AND epoch=?{lock}"
    fresh = "SELECT expires > {later} FROM checkpoints_claim c WHERE c.run_id=fence.id AND c.token=?"
    moved = (
        "UPDATE checkpoints_run r SET seq=r.seq+?, n=CASE WHEN r.n<? THEN ? ELSE r.n END, attempts=0, updated={now}"
        " FROM held WHERE r.id=held.id RETURNING r.id, r.seq"
    )
    columns = ", ".join(f'"{name}"' for name in CHECKPOINT)
    values = ", ".join("moved.seq" if name == "seq" else "?" for name in CHECKPOINT)
    parts = [
        f"fence AS MATERIALIZED ({fence})",
        f"held AS MATERIALIZED (SELECT id FROM fence WHERE ({fresh}))",
        f"moved AS ({moved})",
        f"kept AS (INSERT INTO checkpoints_checkpoint ({columns}) SELECT {values} FROM moved)",
    ]
    if events:
        row = "CAST(? AS varchar), CAST(? AS varchar), CAST(? AS json)"
        rows = ", ".join(f"({before}, {row})" for before in reversed(range(events)))
        parts.append(
            f"said AS (INSERT INTO checkpoints_event ({', '.join(EVENT)}, at)"
            " SELECT moved.id, moved.seq - e.before, e.kind, e.step, e.data, {now}"
            f" FROM moved, (VALUES {rows}) AS e (before, kind, step, data) ORDER BY 2)"
        )
    return dialect.sql(f"WITH {', '.join(parts)} SELECT seq FROM moved")


# The events of a commit as rows, and the statement that inserts them.

StoredEvent: TypeAlias = tuple[str, str | None, str]
"""Kind, step, data as text."""
OWN_TIME = "{least}({greatest}(?, coalesce((SELECT at FROM checkpoints_event WHERE run_id=? AND seq=?), ?)), {{now}})"
"""The time of an event that has one, not before the event before the commit and not after it."""


def stored_events(drafts: Iterable[EventDraft]) -> tuple[StoredEvent, ...]:
    """Return events with their data as text."""
    return tuple([(event.kind, event.step, dumps(event.data).decode()) for event in drafts])


def insert_events(
    dialect: Dialect,
    encryptor: Encryptor,
    run: RunId,
    events: Sequence[StoredEvent],
    times: Sequence[datetime | None],
    last: int,
) -> Statement:
    """Return the statement that inserts a run's events. ``last``: the number of the last one.

    ``times``: the time of each event, None for that of the commit; empty if none has one of its own.
    """
    first = last - len(events) + 1
    params: list[Any] = []
    for seq, (kind, step, data) in enumerate(events, first):
        if encryptor.changes(data):
            data = encryptor.encrypt_document(data, "event", run, str(seq), "data", clear=UNENCRYPTED)
        params += event_row(run, seq, kind, step, data)
        if times and (time := dialect.moment(times[seq - first])) is not None:
            params += (time, run, first - 1, time)
    if times:
        return _timed(dialect, tuple(time is not None for time in times)), tuple(params)
    return _plain(dialect, len(events)), tuple(params)


@lru_cache(maxsize=512)
def _plain(dialect: Dialect, count: int) -> str:
    return dialect.sql(insert("checkpoints_event", EVENT, rows=count, at="{now}"))


@lru_cache(maxsize=512)
def _timed(dialect: Dialect, timed: tuple[bool, ...]) -> str:
    least, greatest = ("min", "max") if dialect.name == "sqlite" else ("least", "greatest")
    own = OWN_TIME.format(least=least, greatest=greatest)
    columns = ", ".join(f'"{name}"' for name in (*EVENT, "at"))
    marks = ",".join(["?"] * len(EVENT))
    rows = ",".join(f"({marks},{own if one else '{now}'})" for one in timed)
    return dialect.sql(f"INSERT INTO checkpoints_event ({columns}) VALUES {rows}")

"""The statements of the hot path, once for both databases.

Written with ``?``; a ``Dialect`` has the differences. Every write takes its locks in one order: run, claim, requests,
the rest. Code that writes elsewhere keeps that order, or PostgreSQL detects deadlocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any

from checkpoints import rules
from checkpoints.limits import findable
from checkpoints.sql.tables import CHECKPOINT, EFFECT, REQUEST, RUN, UserTable

Rows = list[tuple[Any, ...]]
Statement = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dialect:
    """The differences between the databases."""

    name: str
    mark: str
    now: str
    later: str
    """Now plus a parameter in seconds."""
    started: str = ""
    """The time at which the statement started, by which an index can be searched; empty: that is ``now``."""
    lock: str
    """Clause of a SELECT that locks the row."""
    skip_locked: str
    """Clause of a SELECT that locks rows and skips those that are locked."""
    by_index: str = ""
    """Clause after a table that names the index to use, where the database would choose another one."""
    for_workers: str = "r.for_workers"
    """Condition that run ``r`` is for workers. SQLite proves a partial index by the words of its condition, and Django
    writes the index's by its version: ``for_workers`` or ``for_workers = 1``."""
    try_lock: str = ""
    """Statement that takes the lock of a number until the transaction ends and returns 1, or 0 while another has it;
    empty: no two transactions write at once.
    """
    writes_in_one: bool = False
    """Whether one statement may write several tables, and costs less than two. On SQLite RETURNING costs more than a
    statement that reads."""
    raw_text: str = "{}"
    """A text column as it is stored, also if it is no text any more."""
    sound: str = ""
    """Condition on runs ``r`` that their counters are numbers, where a column takes any text."""

    def sql(self, text: str) -> str:
        """Return a statement in this dialect."""
        words = {"{now}": self.now, "{later}": self.later, "{started}": self.started or self.now, "{lock}": self.lock}
        for name, word in words.items():
            text = text.replace(name, word)
        return text.replace("?", self.mark)

    def moment(self, at: datetime | None) -> Any:
        """Return a time as a parameter."""
        if at is None or self.name == "postgresql":
            return at
        return at.astimezone(UTC).isoformat(" ", "microseconds")[:26]

    def parameter(self, value: Any) -> Any:
        """Return a time, text, enum or plain value as a parameter."""
        if isinstance(value, datetime):
            return self.moment(value)
        return findable(str(value)) if isinstance(value, str) else value

    def time(self, stored: Any) -> Any:
        """Return a stored time as an aware datetime, or None."""
        if stored is None or isinstance(stored, datetime):
            return stored
        return datetime.fromisoformat(stored).replace(tzinfo=UTC)


SQLITE = Dialect(
    name="sqlite",
    mark="?",
    # SQLite's clock has three decimals and stored times have six: text is compared to its end.
    now="strftime('%Y-%m-%d %H:%M:%f000','now')",
    later="strftime('%Y-%m-%d %H:%M:%f000','now',? || ' seconds')",
    lock="",
    skip_locked="",
    by_index=" INDEXED BY {}",
    for_workers="r.for_workers AND r.for_workers = 1",
    raw_text="CAST({} AS BLOB)",
    sound=" AND typeof(r.n) = 'integer' AND typeof(r.epoch) = 'integer' AND typeof(r.attempts) = 'integer'",
)
POSTGRES = Dialect(
    name="postgresql",
    mark="%s",
    now="clock_timestamp()",
    later="clock_timestamp() + ? * interval '1 second'",
    started="statement_timestamp()",
    writes_in_one=True,
    lock=" FOR UPDATE",
    skip_locked=" FOR UPDATE SKIP LOCKED",
    try_lock="SELECT CASE WHEN pg_try_advisory_xact_lock(?::bigint) THEN 1 ELSE 0 END",
)

CHUNKS_PER_STATEMENT = 64
"""Chunks written by one statement."""
CONTENT = ", ".join(CHECKPOINT)
"""The columns of a whole checkpoint; the last one is its content."""
METADATA = ", ".join(CHECKPOINT[:-1])
"""The columns of a list of checkpoints."""
ANSWERED = "SELECT 1 FROM checkpoints_humanrequest WHERE run_id=? AND closed IS NULL AND answered IS NOT NULL"
LIVE = "run_id=? AND token=? AND expires > {now}"
IS_CURRENT = "c.epoch >= r.epoch"
"""A claim of an earlier epoch was revoked; its row blocks other workers until its own has stopped running steps."""
SYNCHRONOUS_COMMIT = (
    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END"
)
"""PostgreSQL's expression that makes this transaction's commit wait for the disk where it is set not to. Stronger
settings (of replication) stay as they are.
"""
TIMED = "('waiting','sleeping','retrying')"


class Statements:
    """The fixed statements in one dialect."""

    def __init__(self, dialect: Dialect, *, users: UserTable | None = UserTable()) -> None:  # noqa: B008, it is frozen
        """``users``: None where answers name their author as text."""
        say = dialect.sql
        move = "UPDATE checkpoints_run SET seq=seq+?, n=CASE WHEN n<? THEN ? ELSE n END, attempts=attempts*?, "
        set_phase = "phase=?, wake_at=?, output=?, error=?, retry=?, finished=CASE WHEN ?=1 THEN {now} END, "
        end = "updated={now} WHERE id=?"
        self.move = say(move + end + " RETURNING seq, n, family, workflow")
        moved = "seq, n, family, workflow, (SELECT expires > {later} FROM checkpoints_claim WHERE run_id=? AND token=?)"
        self.move_alone = say(f"{move}{end} AND epoch=?")
        self.move_fenced = f"{self.move_alone} RETURNING {say(moved)}"
        self.moved = say(f"SELECT {moved} FROM checkpoints_run WHERE id=? AND epoch=?")
        # It counts where the phase is ready: a run that becomes ready later gets that time then.
        left = "for_workers=TRUE, ready_at={now}, "
        self.set_phase = say(f"{move}{set_phase}{left}{end} RETURNING seq, n, family, workflow")
        self.set_phase_fenced = say(move + set_phase + end + " AND epoch=? RETURNING seq, n, family, workflow")
        run = insert("checkpoints_run", RUN, created="{now}", updated="{now}")
        self.new_run = say(f"{run} ON CONFLICT (id) DO NOTHING RETURNING id")
        self.extend = say(f"UPDATE checkpoints_claim SET expires={{later}} WHERE {LIVE} RETURNING expires")
        self.extend_by_ttl = say(
            f"UPDATE checkpoints_claim SET ttl=?, expires={{later}} WHERE {LIVE}"
            " AND epoch >= (SELECT epoch FROM checkpoints_run WHERE id=run_id) RETURNING expires"
        )
        self.release_live = say(f"DELETE FROM checkpoints_claim WHERE {LIVE} RETURNING 1")
        self.release = say("DELETE FROM checkpoints_claim WHERE run_id=? AND token=?")
        self.wake_if_answered = say(
            f"UPDATE checkpoints_run SET phase='ready', priority={rules.Priority.RESUMED:d}, ready_at={{now}},"
            f" wake_at=NULL WHERE id=? AND phase IN {TIMED} AND EXISTS ({ANSWERED})"
        )
        self._write_rows(dialect)
        self._reads(dialect)
        self._pruning(dialect)
        self._answering(dialect, users)
        name = "a.by_id" if users is None else f"u.{users.name}"
        people = "" if users is None else users.join
        votes = "'', '', NULL" if users is None else "a.acting_for, a.others, a.rule"
        answers = (
            f"SELECT q.id, q.key, a.value, {name}, a.at, {votes}, a.by_id, a.digest FROM checkpoints_humanrequest q"
            f" JOIN checkpoints_answer a ON a.request_id=q.id{people} WHERE q.run_id=?"
        )
        self.answers = say(f"{answers} AND q.closed IS NULL")
        self.past_answers = say(f"{answers} ORDER BY a.at")

    def _write_rows(self, dialect: Dialect) -> None:
        say = dialect.sql
        checkpoint = insert("checkpoints_checkpoint", CHECKPOINT)
        self.checkpoint = say(f"{checkpoint} ON CONFLICT DO NOTHING{' RETURNING n' * dialect.writes_in_one}")
        self.close = say(
            "UPDATE checkpoints_humanrequest SET closed={now},"
            " closed_as=CASE WHEN answered IS NULL THEN 'withdrawn' ELSE 'taken' END"
            " WHERE run_id=? AND key=? AND closed IS NULL"
        )
        request = insert("checkpoints_humanrequest", REQUEST, created="{now}", closed_as="''")
        self.open = say(
            f"{request} ON CONFLICT (run_id, key) WHERE closed IS NULL DO UPDATE SET key=excluded.key RETURNING key, id"
        )
        self.effect_result = say(
            "UPDATE checkpoints_effect SET state=?, result=?, n=?, at={now}"
            " WHERE run_id=? AND key=? AND state IN ('intended','unknown') RETURNING id"
        )
        self.effect = say(insert("checkpoints_effect", EFFECT, at="{now}"))

    def _answering(self, dialect: Dialect, users: UserTable | None) -> None:
        """Build the statements that record an answer. With a table of people, answers refer to it by key."""
        say = dialect.sql
        # A reply that takes effect in some seconds is the dashboard's: it has decided already.
        decided = "0" if users is None else "CASE WHEN settles IS NULL THEN 0 ELSE 1 END"
        by = "?" if users is None else users.named
        self.pending = say(
            f"SELECT id, {decided}, {by}, {{now}} FROM checkpoints_humanrequest"
            " WHERE run_id=? AND key=? AND closed IS NULL"
        )
        self.asked = say(
            "SELECT q.step, q.card, q.answer_schema, r.for_workers FROM checkpoints_humanrequest q"
            " JOIN checkpoints_run r ON r.id=q.run_id WHERE q.id=?"
        )
        verdict, mark = ("", "") if users is None else (", verdict", ",?")
        self.answer = say(
            f"INSERT INTO checkpoints_answer (request_id, value, by_id, at, digest{verdict}) VALUES (?,?,?,?,?{mark})"
        )
        self.answered = say("UPDATE checkpoints_humanrequest SET answered={now} WHERE id=?")
        self.entitle = "" if users is None else say("UPDATE checkpoints_run SET own_title=?, listed=? WHERE id=?")
        sums = ", ".join(f"{name}=coalesce({name},0)+?" for name in rules.USED)
        self.spend = say(f"UPDATE checkpoints_run SET {sums} WHERE id=?")
        self.supersede = say(
            "UPDATE checkpoints_humanrequest SET closed={now}, closed_as='superseded' WHERE run_id=? AND closed IS NULL"
        )

    @property
    def names_verdict(self) -> bool:
        """Return whether an answer's row also has its name in lists."""
        return "verdict" in self.answer

    def _reads(self, dialect: Dialect) -> None:
        say = dialect.sql
        self.head = say("SELECT id FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC LIMIT 1")
        self.known_checkpoint = say("SELECT 1 FROM checkpoints_checkpoint WHERE id=?")
        self.load = say(f"SELECT {CONTENT} FROM checkpoints_checkpoint WHERE run_id=? AND id=?")
        self.latest = say(f"SELECT {CONTENT} FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC LIMIT 1")
        self.ids = say("SELECT id FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC")
        self.good = say("SELECT 1 FROM checkpoints_checkpoint WHERE run_id=? AND id=? AND clean")
        self.delete = say("DELETE FROM checkpoints_checkpoint WHERE run_id=? AND id=? RETURNING n")
        self.quarantine = say("UPDATE checkpoints_checkpoint SET clean=?, flaw=? WHERE run_id=? AND id=? RETURNING n")
        self.label = say("UPDATE checkpoints_checkpoint SET label=? WHERE run_id=? AND id=? RETURNING n")
        self.facts = say("SELECT workflow, version, input, n, attempts FROM checkpoints_run WHERE id=?")
        self.family = say("SELECT family FROM checkpoints_run WHERE id=?")
        self.events = say(
            "SELECT kind, step, data, seq, at FROM checkpoints_event WHERE run_id=? AND seq > ? ORDER BY seq LIMIT ?"
        )
        self.now = say("SELECT {now}")
        self.clock = say(
            "SELECT {now}, (SELECT min(expires) FROM checkpoints_claim WHERE expires > {now}),"
            " (SELECT min(wake_at) FROM checkpoints_run WHERE wake_at > {started})"
        )

    def _pruning(self, dialect: Dialect) -> None:
        say = dialect.sql
        self.lock_run = say("SELECT family FROM checkpoints_run WHERE id=?{lock}")
        self.phase = say("SELECT phase FROM checkpoints_run WHERE id=?")
        self.origins = say(
            "SELECT f.forked_from FROM checkpoints_run r JOIN checkpoints_run f ON f.family=r.family"
            " WHERE r.id=? AND f.forked_from IS NOT NULL"
        )
        self.relatives = say("SELECT id FROM checkpoints_run WHERE family=? ORDER BY id")
        self.lock_relatives = say("SELECT id FROM checkpoints_run WHERE family=? ORDER BY id{lock}")
        self.needed = say(
            "SELECT id FROM checkpoints_checkpoint WHERE run_id=? AND n IN ("
            "(SELECT n FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC LIMIT 1),"
            "(SELECT n FROM checkpoints_checkpoint WHERE run_id=? AND clean ORDER BY n DESC LIMIT 1))"
        )
        self.roots = say(
            "SELECT run_id, id, format, body, n FROM checkpoints_checkpoint WHERE run_id=? AND n < ?"
            " ORDER BY n DESC LIMIT ?"
        )
        self.hashes = say("SELECT hash FROM checkpoints_chunk WHERE family=?")


def insert(table: str, columns: Sequence[str], *, rows: int = 1, **literals: str) -> str:
    """Return the statement that inserts rows: parameters for the columns, SQL for those in ``literals``."""
    names = ", ".join(f'"{name}"' for name in (*columns, *literals))
    row = ",".join(["?"] * len(columns) + list(literals.values()))
    return f"INSERT INTO {table} ({names}) VALUES {','.join([f'({row})'] * rows)}"


@lru_cache(maxsize=512)
def select_chunks(dialect: Dialect, count: int) -> str:
    """Return the statement that reads ``count`` chunks of one family by hash."""
    return dialect.sql(f"SELECT hash, data FROM checkpoints_chunk WHERE family=? AND hash IN ({placeholders(count)})")


REPAIR = " ON CONFLICT (family, hash) DO UPDATE SET data=excluded.data WHERE checkpoints_chunk.data<>excluded.data"
"""Rewriting a corrupt chunk repairs it."""
INSERT_ARRAYS = (
    "INSERT INTO checkpoints_chunk (family, hash, data) SELECT ?, hash, substring(?::bytea FROM begin FOR size)"
    f" FROM {{}}unnest(?::text[], ?::int[], ?::int[]) c (hash, begin, size){REPAIR}"
)
"""PostgreSQL's statement that inserts any number of chunks: family, and ``arrays_of`` them."""


def insert_chunks(dialect: Dialect, family: str, chunks: Mapping[str, bytes]) -> list[Statement]:
    """Return the statements that insert chunks of one family by hash, where they are missing.

    In the order of their hashes, so that two writers of the same ones do not wait for each other.
    """
    if dialect.writes_in_one:
        return [(dialect.sql(INSERT_ARRAYS.format("")), (family, *arrays_of(chunks)))] if chunks else []
    rows = [(family, key, data) for key, data in sorted(chunks.items())]
    groups = [rows[at : at + CHUNKS_PER_STATEMENT] for at in range(0, len(rows), CHUNKS_PER_STATEMENT)]
    return [(_insert_chunks(dialect, len(group)), tuple(chain.from_iterable(group))) for group in groups]


@lru_cache(maxsize=4 * CHUNKS_PER_STATEMENT)
def _insert_chunks(dialect: Dialect, count: int) -> str:
    return dialect.sql(
        f"INSERT INTO checkpoints_chunk (family, hash, data) VALUES {','.join(['(?,?,?)'] * count)}{REPAIR}"
    )


def arrays_of(chunks: Mapping[str, bytes]) -> tuple[Any, ...]:
    """Return the data of chunks, and as PostgreSQL reads arrays their hashes, and where each begins and its size."""
    names = sorted(chunks)
    sizes = [len(chunks[name]) for name in names]
    arrays = names, [*accumulate(sizes, initial=1)][:-1], sizes
    return b"".join(map(chunks.__getitem__, names)), *(f"{{{','.join(map(str, one))}}}" for one in arrays)


@lru_cache(maxsize=512)
def extend_many(dialect: Dialect, count: int) -> str:
    """Return the statement that extends ``count`` claims by token and returns the tokens of those it extended.

    A claim whose row is locked is skipped: a commit has it, which extends the claim itself or ends it.
    """
    live = f"token IN ({placeholders(count)}) AND expires > {{now}}"
    free = f"SELECT run_id FROM checkpoints_claim WHERE {live}{dialect.skip_locked}"
    return dialect.sql(
        f"UPDATE checkpoints_claim SET ttl=?, expires={{later}} WHERE run_id IN ({free}) RETURNING token"
    )


@lru_cache(maxsize=512)
def revive_many(dialect: Dialect, count: int) -> str:
    """Return the statement that extends ``count`` claims by token, also expired ones, while no one else has the run.

    It locks the run first, as those do that take it over: of both, one has it. A run whose row is locked is skipped.
    """
    tokens = placeholders(count)
    free = f"SELECT r.id FROM checkpoints_run r JOIN checkpoints_claim c ON c.run_id=r.id WHERE c.token IN ({tokens})"
    locked = dialect.skip_locked.replace("UPDATE", "UPDATE OF r")
    extend = f"UPDATE checkpoints_claim SET ttl=?, expires={{later}} WHERE token IN ({tokens})"
    return dialect.sql(f"{extend} AND run_id IN ({free}{locked})")


@lru_cache(maxsize=512)
def current_tokens(dialect: Dialect, count: int) -> str:
    """Return the statement that selects, by token, which of ``count`` claims have their run, and if each is live."""
    return dialect.sql(
        "SELECT c.token, CASE WHEN c.expires > {now} THEN 1 ELSE 0 END"
        " FROM checkpoints_claim c JOIN checkpoints_run r ON r.id=c.run_id"
        f" WHERE c.token IN ({placeholders(count)}) AND {IS_CURRENT}"
    )


DELETE_CHUNKS = "DELETE FROM checkpoints_chunk WHERE family=? AND hash IN ({})"
DELETE_CHECKPOINTS = "DELETE FROM checkpoints_checkpoint WHERE run_id=? AND id IN ({}) RETURNING n"
SELECT_ROOTS = "SELECT run_id, id, format, body FROM checkpoints_checkpoint WHERE id IN ({})"


def among(dialect: Dialect, sql: str, ids: Sequence[Any], *before: Any) -> Statement:
    """Return a statement whose ``IN ({})`` lists these ids. ``before``: the parameters ahead of them."""
    return dialect.sql(sql.format(placeholders(len(ids)))), (*before, *ids)


def placeholders(count: int) -> str:
    """Return that many parameter placeholders."""
    return ",".join("?" * count)

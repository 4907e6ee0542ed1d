"""The statements of the hot path, once for both databases.

Written with ``?``; a ``Dialect`` says what differs. Every write takes its locks in one order: run, claim,
requests, the rest. Whoever writes elsewhere keeps to it, or PostgreSQL finds a deadlock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any

from checkpoints.records import CheckpointFilter

Rows = list[tuple[Any, ...]]
Statement = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What differs between the databases."""

    name: str
    mark: str
    now: str
    later: str
    """Now plus a parameter in seconds."""
    lock: str
    """Ends a SELECT that keeps others off the row."""

    def sql(self, text: str) -> str:
        """Return a statement in this dialect."""
        filled = text.replace("{now}", self.now).replace("{later}", self.later).replace("{lock}", self.lock)
        return filled.replace("?", self.mark)

    def moment(self, at: datetime | None) -> Any:
        """Return a time as a parameter."""
        if at is None or self.name == "postgresql":
            return at
        return at.astimezone(UTC).isoformat(" ", "microseconds")[:26]

    def parameter(self, value: Any) -> Any:
        """Return a time, text, enum or plain value as a parameter."""
        if isinstance(value, datetime):
            return self.moment(value)
        return str(value) if isinstance(value, str) else value

    def time(self, stored: Any) -> Any:
        """Return a stored time as an aware datetime, or None."""
        if stored is None or isinstance(stored, datetime):
            return stored
        return datetime.fromisoformat(stored).replace(tzinfo=UTC)


SQLITE = Dialect(
    name="sqlite",
    mark="?",
    now="strftime('%Y-%m-%d %H:%M:%f','now')",
    later="strftime('%Y-%m-%d %H:%M:%f','now',? || ' seconds')",
    lock="",
)
POSTGRES = Dialect(
    name="postgresql",
    mark="%s",
    now="clock_timestamp()",
    later="clock_timestamp() + ? * interval '1 second'",
    lock=" FOR UPDATE",
)

ROWS = 64
"""Chunks written by one statement."""
INFO = (
    "id, run_id, workflow, n, parent, version, engine, step, reason, label, created, format, size, clean, seq,"
    " flaw, waiting"
)
COLUMNS = tuple(INFO.replace("run_id", "run").split(", "))
"""The same as fields of a ``CheckpointInfo``."""
ANSWERED = "SELECT 1 FROM checkpoints_humanrequest WHERE run_id=? AND closed IS NULL AND answered IS NOT NULL"
LIVE = "run_id=? AND token=? AND expires > {now}"
TIMED = "('waiting','sleeping','retrying')"


class Statements:
    """The fixed statements in one dialect."""

    def __init__(self, dialect: Dialect, *, users: str | None = "auth_user", username: str = "username") -> None:
        """``users`` is the table of people; None where answers name their author as text."""
        say = dialect.sql
        move = "UPDATE checkpoints_run SET seq=seq+?, n=CASE WHEN n<? THEN ? ELSE n END, attempts=attempts*?, "
        settle = "phase=?, wake_at=?, output=?, error=?, retry=?, finished=CASE WHEN ?=1 THEN {now} END, "
        end = "updated={now} WHERE id=?"
        self.move = say(move + end + " RETURNING seq, n, family, workflow")
        self.move_fenced = say(move + end + " AND epoch=? RETURNING seq, n, family, workflow")
        self.settle = say(move + settle + end + " RETURNING seq, n, family, workflow")
        self.settle_fenced = say(move + settle + end + " AND epoch=? RETURNING seq, n, family, workflow")
        self.new_run = say(
            "INSERT INTO checkpoints_run (id, workflow, version, engine, title, phase, seq, n, epoch, attempts, family,"
            " forked_from, acted_by, created, updated)"
            " VALUES (?,?,?,?,'','ready',0,0,0,0,?,?,'',{now},{now}) ON CONFLICT (id) DO NOTHING RETURNING id"
        )
        self.extend = say(f"UPDATE checkpoints_claim SET expires={{later}} WHERE {LIVE} RETURNING expires")
        self.extend_by_ttl = say(
            f"UPDATE checkpoints_claim SET ttl=?, expires={{later}} WHERE {LIVE} RETURNING expires"
        )
        self.let_go = say(f"DELETE FROM checkpoints_claim WHERE {LIVE} RETURNING 1")
        self.release = say("DELETE FROM checkpoints_claim WHERE run_id=? AND token=?")
        self.woken_by_answer = say(
            "UPDATE checkpoints_run SET phase='ready', wake_at=NULL"
            f" WHERE id=? AND phase IN {TIMED} AND EXISTS ({ANSWERED})"
        )
        self._write_rows(dialect)
        self._claims(dialect)
        self._reads(dialect)
        self._pruning(dialect)
        name = "a.by_id" if users is None else f"u.{username}"
        people = "" if users is None else f" LEFT JOIN {users} u ON u.id=a.by_id"
        self.answers = say(
            f"SELECT q.key, a.value, {name}, a.at FROM checkpoints_humanrequest q"
            f" JOIN checkpoints_answer a ON a.request_id=q.id{people} WHERE q.run_id=? AND q.closed IS NULL"
        )

    def _write_rows(self, dialect: Dialect) -> None:
        say = dialect.sql
        self.checkpoint = say(
            f"INSERT INTO checkpoints_checkpoint ({INFO}, body) VALUES ({','.join('?' * (len(COLUMNS) + 1))})"
            " ON CONFLICT DO NOTHING RETURNING n"
        )
        self.close = say(
            "UPDATE checkpoints_humanrequest SET closed={now},"
            " closed_as=CASE WHEN answered IS NULL THEN 'withdrawn' ELSE 'taken' END"
            " WHERE run_id=? AND key=? AND closed IS NULL"
        )
        self.open = say(
            "INSERT INTO checkpoints_humanrequest (id, run_id, key, workflow, step, kind, card, answer_schema,"
            ' "by", not_by, due, policy, alarm, risk, created, closed_as)'
            " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,{now},'')"
            " ON CONFLICT (run_id, key) WHERE closed IS NULL DO UPDATE SET key=excluded.key RETURNING key, id"
        )
        self.effect_result = say(
            "UPDATE checkpoints_effect SET state=?, result=?, n=?, at={now}"
            " WHERE run_id=? AND key=? AND state IN ('intended','unknown') RETURNING id"
        )
        self.effect = say(
            "INSERT INTO checkpoints_effect (run_id, key, step, name, once, state, result, n, at)"
            " VALUES (?,?,?,?,?,?,?,?,{now})"
        )

    def _claims(self, dialect: Dialect) -> None:
        say = dialect.sql
        self.look_at_run = say(
            f"SELECT CASE WHEN phase='ready' OR (phase IN {TIMED} AND wake_at <= {{now}}) THEN 1 ELSE 0 END,"
            " attempts FROM checkpoints_run WHERE id=?{lock}"
        )
        self.look_at_claim = say(
            "SELECT CASE WHEN expires > {now} THEN 1 ELSE 0 END FROM checkpoints_claim WHERE run_id=?"
        )
        self.next_epoch = say(
            "UPDATE checkpoints_run SET epoch=epoch+1, phase='ready', wake_at=NULL, attempts=? WHERE id=?"
            " RETURNING epoch"
        )
        self.take = say(
            "INSERT INTO checkpoints_claim (run_id, token, worker, epoch, ttl, expires) VALUES (?,?,?,?,?,{later})"
            " ON CONFLICT (run_id) DO UPDATE SET token=excluded.token, worker=excluded.worker, epoch=excluded.epoch,"
            " ttl=excluded.ttl, expires=excluded.expires RETURNING expires"
        )
        self.expire = say("UPDATE checkpoints_claim SET expires={now} WHERE substr(worker, 1, length(?)) = ?")
        free = "NOT EXISTS (SELECT 1 FROM checkpoints_claim c WHERE c.run_id=r.id AND c.expires > {now})"
        self.due = say(
            f"SELECT id FROM checkpoints_run r WHERE phase='ready' AND {free}"
            f" UNION ALL SELECT id FROM checkpoints_run r WHERE wake_at <= {{now}} AND phase IN {TIMED} AND {free}"
            " LIMIT ?"
        )

    def _reads(self, dialect: Dialect) -> None:
        say = dialect.sql
        self.load = say(f"SELECT {INFO}, body FROM checkpoints_checkpoint WHERE run_id=? AND id=?")
        self.latest = say(f"SELECT {INFO}, body FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC LIMIT 1")
        self.ids = say("SELECT id FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC")
        self.good = say("SELECT 1 FROM checkpoints_checkpoint WHERE run_id=? AND id=? AND clean")
        self.delete = say("DELETE FROM checkpoints_checkpoint WHERE run_id=? AND id=? RETURNING n")
        self.quarantine = say("UPDATE checkpoints_checkpoint SET clean=?, flaw=? WHERE run_id=? AND id=? RETURNING n")
        self.label = say("UPDATE checkpoints_checkpoint SET label=? WHERE run_id=? AND id=? RETURNING n")
        self.facts = say("SELECT id, workflow, version, input, n, attempts FROM checkpoints_run WHERE id=?")
        self.family = say("SELECT family FROM checkpoints_run WHERE id=?")
        self.events = say(
            "SELECT kind, step, data, seq, at FROM checkpoints_event WHERE run_id=? AND seq > ? ORDER BY seq LIMIT ?"
        )
        self.now = say("SELECT {now}")

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
            "SELECT id, n, format, body FROM checkpoints_checkpoint WHERE run_id=? AND n < ? ORDER BY n DESC LIMIT ?"
        )
        self.hashes = say("SELECT hash FROM checkpoints_chunk WHERE family=?")


CONDITIONS = {
    "step": "step=?",
    "reason": "reason=?",
    "clean": "clean=?",
    "has_request": ("waiting=0", "waiting>0"),
    "labelled": ("label IS NULL", "label IS NOT NULL"),
    "label": "label=?",
    "since": "created>=?",
    "until": "created<?",
}
"""How each field of a ``CheckpointFilter`` is said; a pair says false and true, without a parameter."""


def list_checkpoints(dialect: Dialect, run: str, before: int, limit: int, where: CheckpointFilter) -> Statement:
    """Return the statement that lists a run's metadata, newest first."""
    conditions = ["run_id=?", "n < ?"]
    parameters: list[Any] = [run, before]
    for name, said in CONDITIONS.items():
        value = getattr(where, name)
        if value is not None:
            conditions.append(said if isinstance(said, str) else said[value])
        if value is not None and isinstance(said, str):
            parameters.append(dialect.parameter(value))
    wanted = " AND ".join(conditions)
    sql = dialect.sql(f"SELECT {INFO} FROM checkpoints_checkpoint WHERE {wanted} ORDER BY n DESC LIMIT ?")
    return sql, (*parameters, limit)


@lru_cache(maxsize=512)
def insert_events(dialect: Dialect, count: int) -> str:
    """Return the statement that inserts ``count`` events of one run."""
    row = "(?,?,?,?,?,{now})"
    rows = ",".join([row] * count)
    return dialect.sql(f"INSERT INTO checkpoints_event (run_id, seq, kind, step, data, at) VALUES {rows}")


@lru_cache(maxsize=512)
def select_chunks(dialect: Dialect, count: int) -> str:
    """Return the statement that reads ``count`` chunks of one family by hash."""
    return dialect.sql(f"SELECT hash, data FROM checkpoints_chunk WHERE family=? AND hash IN ({marks(count)})")


def insert_chunks(dialect: Dialect, family: str, chunks: Mapping[str, bytes]) -> list[Statement]:
    """Return the statements that add chunks of one family by hash, where they are not there yet."""
    rows = [(family, key, data) for key, data in chunks.items()]
    groups = [rows[at : at + ROWS] for at in range(0, len(rows), ROWS)]
    return [(_insert_chunks(dialect, len(group)), tuple(chain.from_iterable(group))) for group in groups]


@lru_cache(maxsize=4 * ROWS)
def _insert_chunks(dialect: Dialect, count: int) -> str:
    # A chunk that rotted is healed by whoever writes the same content again.
    return dialect.sql(
        f"INSERT INTO checkpoints_chunk (family, hash, data) VALUES {','.join(['(?,?,?)'] * count)}"
        " ON CONFLICT (family, hash) DO UPDATE SET data=excluded.data WHERE checkpoints_chunk.data<>excluded.data"
    )


def delete_chunks(dialect: Dialect, family: str, hashes: Sequence[str]) -> Statement:
    """Return the statement that removes chunks of one family by hash."""
    sql = f"DELETE FROM checkpoints_chunk WHERE family=? AND hash IN ({marks(len(hashes))})"
    return dialect.sql(sql), (family, *hashes)


def delete_checkpoints(dialect: Dialect, run: str, ids: Sequence[str]) -> Statement:
    """Return the statement that removes checkpoints of one run by id, and returns those it found."""
    sql = f"DELETE FROM checkpoints_checkpoint WHERE run_id=? AND id IN ({marks(len(ids))}) RETURNING n"
    return dialect.sql(sql), (run, *ids)


def select_roots(dialect: Dialect, ids: Sequence[str]) -> Statement:
    """Return the statement that reads format and body of checkpoints by id."""
    sql = f"SELECT format, body FROM checkpoints_checkpoint WHERE id IN ({marks(len(ids))})"
    return dialect.sql(sql), tuple(ids)


def waiting(*, local: bool) -> str:
    """Return PostgreSQL's statement that makes commits wait for the disk where they are set not to.

    ``local`` means this transaction's, else this connection's. Stronger settings (of replication) stay as they are.
    """
    asked = "current_setting('synchronous_commit')"
    return f"SELECT set_config('synchronous_commit', 'on', {str(local).lower()}) WHERE {asked} = 'off'"


def marks(count: int) -> str:
    """Return so many parameters."""
    return ",".join("?" * count)

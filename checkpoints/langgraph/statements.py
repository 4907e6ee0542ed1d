"""The statements on the tables of threads, once for both databases. No text of a user is ever part of one.

Every write first locks its thread's row together with other writers, and a pruning locks it alone: what a writer reuses
cannot go away before it has committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from checkpoints.content.canonical_json import dumps
from checkpoints.langgraph.values import Json, ThreadPlace, plain_text, run_key, thread_key, whole_number
from checkpoints.sql.statements import Dialect, Statement, placeholders

THREAD = "checkpoints_langgraph_thread"
CHECKPOINT = "checkpoints_langgraph_checkpoint"
WRITE = "checkpoints_langgraph_write"

ROW = ("parent", "source", "step", "run_key", "size", "turn", "metadata", "body")
"""A checkpoint's columns besides its key."""
CHECKPOINT_KEY = ("thread_id", "ns", "checkpoint")
WRITE_KEY = (*CHECKPOINT_KEY, "task", "idx")
WRITTEN = ("path", "channel", "turn", "body")
"""A write's columns besides its key."""
ROOTS = {CHECKPOINT: "id, turn, ns, checkpoint, body", WRITE: "id, turn, ns, checkpoint, task, idx, body"}
"""What a pruning reads of rows that stay, by table."""
FOUND = "c.id, c.thread_id, t.name, t.family, c.ns, c.checkpoint, c.parent, c.size, c.turn, {metadata}, c.body"
"""What is read of a checkpoint."""
FROM = f" FROM {THREAD} t JOIN {CHECKPOINT} c ON c.thread_id=t.id"
OF_THREAD = f"thread_id=(SELECT id FROM {THREAD} WHERE key=?)"
NEWEST = " ORDER BY c.checkpoint DESC, c.thread_id DESC, c.ns DESC LIMIT ?"


class ThreadStatements:
    """The fixed statements in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        say = dialect.sql
        share = " FOR KEY SHARE" if dialect.lock else ""
        self.columns = FOUND.format(metadata="c.metadata::text" if dialect.lock else "c.metadata")
        self.new_thread = say(
            f"INSERT INTO {THREAD} (key, name, family) VALUES (?,?,?) ON CONFLICT (key) DO NOTHING RETURNING id"
        )
        self.thread = say(f"SELECT id, family FROM {THREAD} WHERE key=?{share}")
        self.look = say(f"SELECT id, family FROM {THREAD} WHERE key=?")
        self.relatives = say(f"SELECT id FROM {THREAD} WHERE family=? ORDER BY id")
        self.lock_relatives = say(f"SELECT id FROM {THREAD} WHERE family=? ORDER BY id{{lock}}")
        self.has_turn = say(f"SELECT 1 FROM {CHECKPOINT} WHERE id=? AND turn=?")
        names = ", ".join((*CHECKPOINT_KEY, *ROW))
        changes = ", ".join(f"{name}=excluded.{name}" for name in ROW)
        self.put = say(
            f"INSERT INTO {CHECKPOINT} ({names}) VALUES ({placeholders(len(CHECKPOINT_KEY) + len(ROW))})"
            f" ON CONFLICT ({', '.join(CHECKPOINT_KEY)}) DO UPDATE SET {changes} RETURNING id"
        )
        # Not by the join: an index gives the order only where the thread is a constant.
        newest = f"SELECT id FROM {CHECKPOINT} WHERE {OF_THREAD} AND ns=? ORDER BY checkpoint DESC LIMIT 1"
        self.latest = say(f"SELECT {self.columns}{FROM} WHERE c.id=({newest})")
        self.one = say(f"SELECT {self.columns}{FROM} WHERE c.{OF_THREAD} AND c.ns=? AND c.checkpoint=?")
        self.writes = say(
            f"SELECT task, idx, path, channel, turn, body FROM {WRITE} WHERE thread_id=? AND ns=? AND checkpoint=?"
        )
        self.drop_writes = say(f"DELETE FROM {WRITE} WHERE thread_id=?")
        self.drop_checkpoints = say(f"DELETE FROM {CHECKPOINT} WHERE thread_id=?")
        self.drop_thread = say(f"DELETE FROM {THREAD} WHERE id=?")
        self.drop_chunks = say("DELETE FROM checkpoints_chunk WHERE family=?")
        self.hashes = say("SELECT hash FROM checkpoints_chunk WHERE family=?")
        self.rebind = say(f"UPDATE {CHECKPOINT} SET parent=NULL, turn=?, body=? WHERE id=?")
        self._copies(dialect)
        self._pruning(dialect)

    def _copies(self, dialect: Dialect) -> None:
        for name, table, columns in (
            ("copy_checkpoints", CHECKPOINT, (*CHECKPOINT_KEY, *ROW)),
            ("copy_writes", WRITE, (*WRITE_KEY, *WRITTEN)),
        ):
            rest = ", ".join(columns[1:])
            copied = f"INSERT INTO {table} (thread_id, {rest}) SELECT CAST(? AS bigint), {rest} FROM {table}"
            setattr(self, name, dialect.sql(f"{copied} WHERE thread_id=?"))

    copy_checkpoints: str
    copy_writes: str

    def _pruning(self, dialect: Dialect) -> None:
        say = dialect.sql
        metadata = "metadata::text" if dialect.lock else "metadata"
        self.outline = say(f"SELECT id, ns, checkpoint, parent, {metadata} FROM {CHECKPOINT} WHERE thread_id=?")
        self.roots = {
            table: say(f"SELECT {columns} FROM {table} WHERE thread_id=? AND id>? ORDER BY id LIMIT ?")
            for table, columns in ROOTS.items()
        }
        self.turns = {table: say(f"SELECT id, turn FROM {table} WHERE thread_id=?") for table in ROOTS}


@lru_cache
def statements_of(dialect: Dialect) -> ThreadStatements:
    """Return the fixed statements in a dialect."""
    return ThreadStatements(dialect)


@lru_cache(maxsize=256)
def put_writes(dialect: Dialect, count: int, *, replace: bool) -> str:
    """Return the statement that stores ``count`` writes; of those that are there already, the old or the new stay."""
    names = ", ".join((*WRITE_KEY, *WRITTEN))
    row = f"({placeholders(len(WRITE_KEY) + len(WRITTEN))})"
    changes = ", ".join(f"{name}=excluded.{name}" for name in WRITTEN)
    act = f"UPDATE SET {changes}" if replace else "NOTHING"
    return dialect.sql(
        f"INSERT INTO {WRITE} ({names}) VALUES {','.join([row] * count)} ON CONFLICT ({', '.join(WRITE_KEY)}) DO {act}"
    )


@dataclass(frozen=True, kw_only=True)
class ThreadFilter:
    """Which checkpoints to list; None: any."""

    thread: str | None = None
    ns: str | None = None
    checkpoint: str | None = None
    before: str | None = None
    metadata: dict[str, Json] = field(default_factory=dict)


Cursor = tuple[str, int, str]
"""Checkpoint, thread and namespace of the last row of a page."""


def list_checkpoints(
    dialect: Dialect, wanted: ThreadFilter, after: Cursor | None, limit: int, *, searchable: bool
) -> Statement:
    """Return the statement that lists checkpoints, those with the greatest ids first.

    It may find some that the metadata excludes. ``searchable``: the metadata is not encrypted.
    """
    parts: list[tuple[str, tuple[object, ...]]] = []
    if wanted.thread is not None:
        parts.append((f"c.{OF_THREAD}", (thread_key(wanted.thread),)))
    if wanted.ns is not None:
        parts.append(("c.ns=?", (wanted.ns,)))
    if wanted.checkpoint is not None:
        parts.append(("c.checkpoint=?", (wanted.checkpoint,)))
    if wanted.before is not None:
        parts.append(("c.checkpoint<?", (wanted.before,)))
    if after is not None:
        parts.append(("c.checkpoint<=?", after[:1]))  # for the index, which knows no comparison of all three
        parts.append(("(c.checkpoint, c.thread_id, c.ns) < (?,?,?)", after))
    parts += _of_metadata(dialect, wanted.metadata, searchable=searchable)
    conditions = " AND ".join(sql for sql, _ in parts)
    where = f" WHERE {conditions}" if parts else ""
    columns = statements_of(dialect).columns
    return dialect.sql(f"SELECT {columns}{FROM}{where}{NEWEST}"), (*(p for _, more in parts for p in more), limit)


def _of_metadata(
    dialect: Dialect, metadata: dict[str, Json], *, searchable: bool
) -> list[tuple[str, tuple[object, ...]]]:
    parts: list[tuple[str, tuple[object, ...]]] = []
    columns = {
        "source": ("c.source=?", plain_text(metadata.get("source"))),
        "step": ("c.step=?", whole_number(metadata.get("step"))),
        "run_id": ("c.run_key=?", run_key(metadata.get("run_id"))),
    }
    for condition, value in columns.values():
        if value is not None:
            parts.append((condition, (value,)))
    others = {key: value for key, value in metadata.items() if key not in columns and value is not None}
    if others and searchable and dialect.lock:
        parts.append(("c.metadata @> CAST(? AS jsonb)", (dumps(others).decode(),)))
    return parts


def newest(dialect: Dialect, place: ThreadPlace) -> Statement:
    """Return the statement that reads the checkpoint of a place, or its newest one."""
    sql, key = statements_of(dialect), thread_key(place.thread)
    if place.checkpoint is None:
        return sql.latest, (key, place.ns)
    return sql.one, (key, place.ns, place.checkpoint)


def writes_of(dialect: Dialect, thread: int, ns: str, checkpoints: Sequence[str], channels: Sequence[str]) -> Statement:
    """Return the statement that reads the writes of checkpoints of a namespace; to some channels, if any are named."""
    only = f" AND channel IN ({placeholders(len(channels))})" if channels else ""
    sql = (
        f"SELECT checkpoint, task, idx, path, channel, turn, body FROM {WRITE} WHERE thread_id=? AND ns=?"
        f" AND checkpoint IN ({placeholders(len(checkpoints))}){only}"
    )
    return dialect.sql(sql), (thread, ns, *checkpoints, *channels)


def ancestors(dialect: Dialect, key: str, ns: str, checkpoint: str, limit: int) -> Statement:
    """Return the statement that reads a checkpoint and those before it, nearest first, ``limit`` at most."""
    sql = (
        f"WITH RECURSIVE chain(id, parent, place) AS ("
        f" SELECT c.id, c.parent, 0{FROM} WHERE t.key=? AND c.ns=? AND c.checkpoint=?"
        f" UNION ALL SELECT c.id, c.parent, chain.place+1 FROM chain JOIN {CHECKPOINT} c ON c.checkpoint=chain.parent"
        f" WHERE c.thread_id=(SELECT id FROM {THREAD} WHERE key=?) AND c.ns=? AND chain.place<?)"
        f" SELECT {statements_of(dialect).columns} FROM chain JOIN {CHECKPOINT} c ON c.id=chain.id"
        f" JOIN {THREAD} t ON t.id=c.thread_id ORDER BY chain.place"
    )
    return dialect.sql(sql), (key, ns, checkpoint, key, ns, limit)


def drop_rows(dialect: Dialect, ids: Sequence[int]) -> Statement:
    """Return the statement that deletes checkpoints by row."""
    return dialect.sql(f"DELETE FROM {CHECKPOINT} WHERE id IN ({placeholders(len(ids))})"), tuple(ids)


def drop_writes_of(dialect: Dialect, thread: int, ns: str, checkpoints: Sequence[str]) -> Statement:
    """Return the statement that deletes the writes of checkpoints of a namespace."""
    sql = f"DELETE FROM {WRITE} WHERE thread_id=? AND ns=? AND checkpoint IN ({placeholders(len(checkpoints))})"
    return dialect.sql(sql), (thread, ns, *checkpoints)


def drop_calls(dialect: Dialect, thread: int, namespaces: Sequence[str]) -> Statement:
    """Return the statement that deletes all writes of namespaces."""
    sql = f"DELETE FROM {WRITE} WHERE thread_id=? AND ns IN ({placeholders(len(namespaces))})"
    return dialect.sql(sql), (thread, *namespaces)


def roots_by_id(dialect: Dialect, table: str, ids: Sequence[int]) -> Statement:
    """Return the statement that reads what a pruning follows, of rows of one of the tables."""
    return dialect.sql(f"SELECT {ROOTS[table]} FROM {table} WHERE id IN ({placeholders(len(ids))})"), tuple(ids)


def rows_by_id(dialect: Dialect, ids: Sequence[int]) -> Statement:
    """Return the statement that reads checkpoints by row."""
    columns = statements_of(dialect).columns
    return dialect.sql(f"SELECT {columns}{FROM} WHERE c.id IN ({placeholders(len(ids))})"), tuple(ids)


def threads_of_runs(dialect: Dialect, keys: Sequence[str]) -> Statement:
    """Return the statement that finds key and name of the threads with checkpoints of these runs."""
    sql = f"SELECT DISTINCT t.key, t.name{FROM} WHERE c.run_key IN ({placeholders(len(keys))})"
    return dialect.sql(sql), tuple(keys)


def rows_of_runs(dialect: Dialect, thread: int, keys: Sequence[str]) -> Statement:
    """Return the statement that finds a thread's checkpoints of these runs, by row."""
    sql = f"SELECT id FROM {CHECKPOINT} WHERE thread_id=? AND run_key IN ({placeholders(len(keys))})"
    return dialect.sql(sql), (thread, *keys)

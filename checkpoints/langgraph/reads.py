"""What is read of threads, as generators: they yield batches of statements and receive their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.content.chunks import verify_digest
from checkpoints.errors import Damaged
from checkpoints.langgraph.encoding import (
    Stored,
    checkpoint_row,
    content_of,
    hashes_in,
    hashes_of,
    stored_in,
    write_row,
)
from checkpoints.langgraph.values import Json, ThreadPlace, matches, plain_text, run_key, thread_key, whole_number
from checkpoints.records import frozen
from checkpoints.sql.reads import ReadScripts, Script
from checkpoints.sql.statements import INSERT_ARRAYS, Dialect, Statement, placeholders

PAGE = 200
"""Checkpoints per statement of a list."""
GROUP = 4_000_000
"""Bytes of values that are read at once, unless one checkpoint alone has more."""
AT_ONCE = 25
"""Checkpoints of a list whose values are read at once: an event loop does nothing else while they are checked."""
PARAMETERS = 500
"""Ids per statement."""


class ThreadRow(NamedTuple):
    """A checkpoint's columns, as they are read."""

    row: int
    thread: int
    name: str
    family: str
    ns: str
    checkpoint: str
    parent: str | None
    size: int
    turn: str
    metadata: str
    body: str


@dataclass(frozen=True, slots=True)
class FoundWrite:
    """What a task wrote to a channel."""

    checkpoint: str
    task: str
    idx: int
    path: str
    channel: str
    stored: Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCheckpoint:
    """A checkpoint as it is stored, with all chunks that it and its writes need."""

    row: ThreadRow
    metadata: dict[str, Json]
    content: Mapping[str, Any]
    writes: Sequence[FoundWrite] = ()
    chunks: Mapping[str, bytes]


@dataclass(frozen=True)
class ThreadReads(ReadScripts):
    """The read operations in one dialect."""

    @property
    def threads(self) -> ThreadStatements:
        """Return the statements."""
        return statements_of(self.dialect)

    def newest(self, place: ThreadPlace) -> Script[ReadCheckpoint | None]:
        """Return the checkpoint of a place, or its newest one, with its writes; None if there is none. ``Damaged``."""
        while True:
            (rows,) = yield [newest(self.dialect, place)]
            if not rows:
                return None
            row = ThreadRow(*rows[0])
            try:
                return (yield from self._with_writes([row]))[0]
            except Damaged as error:
                # What a pruning removed in the meantime is no damage.
                (same,) = yield [(self.threads.has_turn, (row.row, row.turn))]
                if same:
                    error.facts.update(thread=row.name, ns=row.ns, checkpoint=row.checkpoint)
                    raise

    def page(self, wanted: ThreadFilter, after: Cursor | None) -> Script[tuple[list[ThreadRow], Cursor | None]]:
        """Return the next checkpoints of a list without their values, and where the following page begins."""
        searchable = not self.encryptor.active
        (rows,) = yield [list_checkpoints(self.dialect, wanted, after, PAGE, searchable=searchable)]
        found = [ThreadRow(*row) for row in rows]
        last = found[-1] if len(found) == PAGE else None
        following = None if last is None else (last.checkpoint, last.thread, last.ns)
        if wanted.metadata:
            found = [row for row in found if matches(self.metadata(row), wanted.metadata)]
        return found, following

    def group(self, rows: Sequence[ThreadRow]) -> Script[list[ReadCheckpoint]]:
        """Return checkpoints of a list with their writes; those that are gone by now are left out. ``Damaged``."""
        try:
            return (yield from self._with_writes(rows))
        except Damaged:
            if len(rows) == 1:
                (same,) = yield [(self.threads.has_turn, (rows[0].row, rows[0].turn))]
                if same:
                    raise
                return []
        found: list[ReadCheckpoint] = []
        for row in rows:
            found += yield from self.group([row])
        return found

    def metadata(self, row: ThreadRow) -> dict[str, Json]:
        """Return a checkpoint's metadata. ``Damaged``, ``Locked``."""
        identity = ("langgraph.checkpoint", row.family, row.ns, row.checkpoint, "metadata")
        try:
            return loads(self.encryptor.decrypt_document(row.metadata, *identity))  # type: ignore[no-any-return]
        except ValueError as error:
            raise Damaged("the stored metadata cannot be read: choose an older checkpoint") from error

    def content(self, row: ThreadRow) -> tuple[dict[str, Json], dict[str, Any]]:
        """Return metadata and content of a checkpoint. ``Damaged`` if either was altered, or is another row's."""
        metadata = self.metadata(row)
        text = self.encryptor.decrypt(row.body, "langgraph.checkpoint", row.family, row.ns, row.checkpoint)
        bound = checkpoint_row(row.family, row.ns, row.checkpoint, row.parent, metadata)
        return metadata, content_of(verify_digest(text, bound))

    def written(self, family: str, ns: str, row: Sequence[Any]) -> FoundWrite:
        """Return a write from its columns. ``Damaged``, ``Locked``."""
        checkpoint, task, idx, path, channel, _, body = row
        text = self.encryptor.decrypt(body, "langgraph.write", family, ns, checkpoint, task, str(idx))
        bound = write_row(family, ns, checkpoint, task, idx, path, channel)
        return FoundWrite(checkpoint, task, idx, path, channel, content_of(verify_digest(text, bound))["w"])

    def _with_writes(self, rows: Sequence[ThreadRow]) -> Script[list[ReadCheckpoint]]:
        """Return checkpoints with their writes and chunks. They may be of several threads and families."""
        contents = [self.content(row) for row in rows]
        writes: dict[tuple[int, str, str], list[FoundWrite]] = {}
        for (thread, ns, family), ids in by_namespace(rows).items():
            for page in pages(ids):
                (read,) = yield [writes_of(self.dialect, thread, ns, page, ())]
                for one in read:
                    found = self.written(family, ns, one)
                    writes.setdefault((thread, ns, found.checkpoint), []).append(found)
        wanted: dict[str, list[Stored]] = {}
        for row, (_, content) in zip(rows, contents, strict=True):
            own = writes.get((row.thread, row.ns, row.checkpoint), ())
            wanted.setdefault(row.family, []).extend([*stored_in(content), *(write.stored for write in own)])
        chunks: dict[str, dict[str, bytes]] = {}
        for family, values in wanted.items():
            chunks[family] = yield from self.fetch(family, values)
        return [
            ReadCheckpoint(
                row=row,
                metadata=metadata,
                content=content,
                writes=sorted(writes.get((row.thread, row.ns, row.checkpoint), ()), key=replay_order),
                chunks=chunks[row.family],
            )
            for row, (metadata, content) in zip(rows, contents, strict=True)
        ]

    def fetch(
        self, family: str, values: Iterable[Stored], *, leaves: bool = True, seen: Collection[str] = ()
    ) -> Script[dict[str, bytes]]:
        """Return the chunks of values by hash, read level by level; without ``leaves`` only those that name others.

        Of chunks in ``seen`` nothing is read. ``Damaged`` if one that names others is missing.
        """
        wanted: dict[str, int] = {}
        for stored in values:
            depth, hashes = hashes_of(stored)
            wanted |= {key: max(depth, wanted.get(key, 0)) for key in hashes if key not in seen}
        found: dict[str, bytes] = {}
        while wanted := {key: depth for key, depth in wanted.items() if key not in found and (leaves or depth)}:
            for page in pages([*wanted]):
                found |= yield from self.chunks(family, page)
            inner: dict[str, int] = {}
            for key, depth in wanted.items():
                if depth:
                    if key not in found:
                        raise Damaged("a chunk of the checkpoint is missing: choose an older one", chunk=key)
                    inner |= dict.fromkeys(hashes_in(found[key]), depth - 1)
            wanted = inner
        return found

    def history(self, place: ThreadPlace, channels: Sequence[str]) -> Script[DeltaHistory | None]:
        """Return what the checkpoints before one hold of channels: see ``DeltaHistory``. None if there is none."""
        (rows,) = yield [newest(self.dialect, place)]
        if not rows:
            return None
        row, history = ThreadRow(*rows[0]), DeltaHistory(channels)
        following, seen = row.parent, {row.checkpoint}
        while following is not None and history.open and following not in seen:
            (read,) = yield [ancestors(self.dialect, thread_key(place.thread), place.ns, following, PAGE)]
            if not read:
                break
            for one in read:
                older = ThreadRow(*one)
                seen.add(older.checkpoint)
                history.add(older.checkpoint, self.content(older)[1]["c"])
                following = older.parent
        for page in pages(history.chain):
            (read,) = yield [writes_of(self.dialect, row.thread, row.ns, page, channels)]
            history.written += [self.written(row.family, row.ns, one) for one in read]
        values = [*history.seeds.values(), *(write.stored for write in history.written)]
        history.chunks = yield from self.fetch(row.family, values)
        return history


class DeltaHistory:
    """What the checkpoints before one hold of channels that only store changes.

    ``seeds``: the nearest stored value of each channel that has one. ``written``: all writes to the channels after
    ``chain``, the checkpoints up to the farthest that is needed, nearest first.
    """

    def __init__(self, channels: Iterable[str]) -> None:
        self.open = set(channels)
        self.chain: list[str] = []
        self.seeds: dict[str, Stored] = {}
        self.written: list[FoundWrite] = []
        self.chunks: Mapping[str, bytes] = {}
        self._ends: dict[str, int] = {}

    def add(self, checkpoint: str, values: Mapping[str, Stored]) -> None:
        """Add the next older checkpoint and its stored values."""
        if not self.open:
            return
        self.chain.append(checkpoint)
        for channel in self.open & values.keys():
            self.seeds[channel], self._ends[channel] = values[channel], len(self.chain)
            self.open.discard(channel)

    def writes_to(self, channel: str) -> list[FoundWrite]:
        """Return the writes to a channel since its seed, in the order in which they happened."""
        places = {checkpoint: place for place, checkpoint in enumerate(self.chain)}
        end = self._ends.get(channel, len(self.chain))
        own = [write for write in self.written if write.channel == channel and places[write.checkpoint] < end]
        return sorted(own, key=lambda write: (-places[write.checkpoint], *replay_order(write)))


def replay_order(write: FoundWrite) -> tuple[str, str, int]:
    """Return what the writes of a checkpoint are sorted by: the order in which a graph applies them."""
    return write.path, write.task, write.idx


def by_namespace(rows: Iterable[ThreadRow]) -> dict[tuple[int, str, str], list[str]]:
    """Return the ids of checkpoints by thread, namespace and family."""
    found: dict[tuple[int, str, str], list[str]] = {}
    for row in rows:
        found.setdefault((row.thread, row.ns, row.family), []).append(row.checkpoint)
    return found


def first_group(rows: Sequence[ThreadRow]) -> Sequence[ThreadRow]:
    """Return the first rows, as many as have values that are read at once: one at least."""
    sizes = accumulate(row.size for row in rows[:AT_ONCE])
    return rows[: max(sum(size <= GROUP for size in sizes), 1)]


def pages(ids: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield ids, as many as fit into a statement at a time."""
    return (ids[at : at + PARAMETERS] for at in range(0, len(ids), PARAMETERS))


# The statements on the tables of threads, once for both databases. No text of a user is ever part of one.

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
ROOTS_BY_ROW = {table: f"SELECT {columns} FROM {table} WHERE id IN ({{}})" for table, columns in ROOTS.items()}
FOUND = "c.id, c.thread_id, t.name, t.family, c.ns, c.checkpoint, c.parent, c.size, c.turn, {metadata}, c.body"
"""What is read of a checkpoint."""
FROM = f" FROM {THREAD} t JOIN {CHECKPOINT} c ON c.thread_id=t.id"
DROP_ROWS = f"DELETE FROM {CHECKPOINT} WHERE id IN ({{}})"
DROP_WRITES = f"DELETE FROM {WRITE} WHERE thread_id=? AND ns=? AND checkpoint IN ({{}})"
DROP_CALLS = f"DELETE FROM {WRITE} WHERE thread_id=? AND ns IN ({{}})"
THREADS_OF_RUNS = f"SELECT DISTINCT t.key, t.name{FROM} WHERE c.run_key IN ({{}})"
ROWS_OF_RUNS = f"SELECT id FROM {CHECKPOINT} WHERE thread_id=? AND run_key IN ({{}})"
OF_THREAD = f"thread_id=(SELECT id FROM {THREAD} WHERE key=?)"
NEWEST = " ORDER BY c.checkpoint DESC, c.thread_id DESC, c.ns DESC LIMIT ?"


class ThreadStatements:
    """The fixed statements in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        say = dialect.sql
        share = " FOR KEY SHARE" if dialect.lock else ""
        self.columns = FOUND.format(metadata="c.metadata::text" if dialect.lock else "c.metadata")
        self.by_row = f"SELECT {self.columns}{FROM} WHERE c.id IN ({{}})"
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
        self.drop_writes = say(f"DELETE FROM {WRITE} WHERE thread_id=?")
        self.drop_checkpoints = say(f"DELETE FROM {CHECKPOINT} WHERE thread_id=?")
        self.drop_thread = say(f"DELETE FROM {THREAD} WHERE id=?")
        self.drop_chunks = say("DELETE FROM checkpoints_chunk WHERE family=?")
        self.rebind = say(f"UPDATE {CHECKPOINT} SET parent=NULL, turn=?, body=? WHERE id=?")
        self.copies = []
        for table, (_, *columns) in ((CHECKPOINT, (*CHECKPOINT_KEY, *ROW)), (WRITE, (*WRITE_KEY, *WRITTEN))):
            rest = ", ".join(columns)
            copied = f"INSERT INTO {table} (thread_id, {rest}) SELECT CAST(? AS bigint), {rest} FROM {table}"
            self.copies.append(say(f"{copied} WHERE thread_id=?"))
        self._pruning(dialect)

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


@lru_cache
def store_whole(dialect: Dialect, *, put: bool, base: bool) -> str:
    """Return PostgreSQL's statement that stores a checkpoint (if any) with writes and chunks, and returns its row or 0.

    It stores nothing and returns nothing if the thread is another one by now, or ``base`` is gone. It locks both: what
    was removed while it waited for the thread is still there in what a statement sees that had begun before.

    Parameters: the thread's key, row and family; row and turn of the base; ``ThreadStatements.put``'s; the writes as a
    JSON list of rows; those of ``INSERT_ARRAYS``.
    """
    known, fence = f"SELECT id FROM {THREAD} WHERE key=? AND id=? AND family=? FOR KEY SHARE", "thread"
    parts = [f"thread AS MATERIALIZED ({known})"]
    if base:
        fence = "fence"
        held = f"SELECT thread.id FROM thread, {CHECKPOINT} c WHERE c.id=? AND c.turn=? FOR KEY SHARE OF c"
        parts.append(f"fence AS MATERIALIZED ({held})")
    if put:
        stored = statements_of(dialect).put.replace("VALUES (", "SELECT ").replace(") ON", f" FROM {fence} ON")
        parts.append(f"kept AS ({stored})")
    row = "(w->>0)::bigint, w->>1, w->>2, w->>3, (w->>4)::int, w->>5, w->>6, w->>7, w->>8"
    written = (
        f"INSERT INTO {WRITE} ({', '.join((*WRITE_KEY, *WRITTEN))}) SELECT {row} FROM {fence}, json_array_elements(?) w"
    )
    chunks = INSERT_ARRAYS.format(f"{fence}, ")
    parts += f"written AS ({written} ON CONFLICT DO NOTHING)", f"chunks AS ({chunks})"
    return dialect.sql(f"WITH {', '.join(parts)} SELECT {'id FROM kept' if put else f'0 FROM {fence}'}")


@frozen
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

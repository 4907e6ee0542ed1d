"""What is read of threads, as generators: they yield batches of statements and receive their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from checkpoints.content.canonical_json import loads
from checkpoints.content.chunks import verify_digest
from checkpoints.errors import Damaged
from checkpoints.langgraph.encoding import checkpoint_row, content_of, stored_in, write_row
from checkpoints.langgraph.pieces import Stored, hashes_in, hashes_of
from checkpoints.langgraph.statements import (
    Cursor,
    ThreadFilter,
    ThreadStatements,
    ancestors,
    list_checkpoints,
    newest,
    statements_of,
    writes_of,
)
from checkpoints.langgraph.values import Json, ThreadPlace, matches, thread_key
from checkpoints.sql.reads import ReadScripts, Script

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

"""What is written and removed of threads, as generators: they yield batches of statements and receive their rows.

Checkpoints and threads are removed, and then the chunks that no thread of the family needs any more, as
``checkpoints.sql.storage`` does for runs: chunks are listed, and what stays is followed, outside of any transaction;
the one that removes locks all threads of the family, follows what was written since, and deletes the rest of the list.
If something that stays cannot be followed, all chunks stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

from checkpoints.content.canonical_json import dumps
from checkpoints.content.chunks import bind_to_row, payload_of
from checkpoints.errors import Conflict, Damaged, Incompatible
from checkpoints.langgraph.encoding import (
    EncodedCheckpoint,
    EncodedWrite,
    EncodedWrites,
    Stored,
    StoredHead,
    checkpoint_row,
    content_of,
    hashes_in,
    hashes_of,
    new_turn,
    stored_in,
    write_row,
)
from checkpoints.langgraph.reads import (
    CHECKPOINT,
    DROP_CALLS,
    DROP_ROWS,
    DROP_WRITES,
    ROOTS_BY_ROW,
    ROWS_OF_RUNS,
    THREADS_OF_RUNS,
    WRITE,
    ThreadReads,
    ThreadRow,
    pages,
    put_writes,
    store_whole,
)
from checkpoints.langgraph.values import Json, ThreadPlace, plain_text, run_key, thread_key, whole_number
from checkpoints.records import frozen
from checkpoints.sql.reads import Script
from checkpoints.sql.statements import DELETE_CHUNKS, Statement, among, arrays_of, insert_chunks
from checkpoints.sql.writes import BaseGone, WholeBatch

# Writes of tasks that wait a moment, so that the checkpoint that follows them is stored in the same transaction.

MOMENT = 0.003
"""Seconds for which writes wait for company."""
PATIENCE = 3
"""Writes that wait in vain, one after the other, until none does; a caller may store one thing at a time."""


class WaitingWrites:
    """Writes that wait. ``stored``: whether someone else's transaction had them; False: they are still to be stored."""

    def __init__(self, given: PreparedWrites) -> None:
        self.given = given
        self.stored: Future[bool] = Future()


class Company:
    """Writes that wait, by namespace; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[tuple[str, str], list[WaitingWrites]] = {}
        self._alone: Counter[tuple[str, str]] = Counter()
        self._patience = PATIENCE

    @property
    def expected(self) -> bool:
        """Return whether it is worth to wait: lately something came along while writes waited or were stored."""
        return self._patience > 0

    @contextmanager
    def without(self, given: PreparedWrites) -> Iterator[None]:
        """Note for as long as it lasts that writes are stored alone: a checkpoint in between is company missed."""
        space = given.place[:2]
        with self._lock:
            self._alone[space] += 1
        try:
            yield
        finally:
            with self._lock:
                self._alone[space] -= 1
                if not self._alone[space]:
                    del self._alone[space]

    def join(self, given: PreparedWrites) -> WaitingWrites:
        """Let writes wait."""
        waiting = WaitingWrites(given)
        with self._lock:
            self._waiting.setdefault(given.place[:2], []).append(waiting)
        return waiting

    def leave(self, waiting: WaitingWrites) -> None:
        """Let writes wait no longer, if no one has taken them yet."""
        with self._lock:
            rest = [other for other in self._waiting.pop(waiting.given.place[:2], []) if other is not waiting]
            if rest:
                self._waiting[waiting.given.place[:2]] = rest

    def lead(self, waiting: WaitingWrites) -> list[WaitingWrites] | None:
        """Return the others that wait in its namespace, as ``take``; None if someone has taken it already."""
        with self._lock:
            found = self._waiting.get(waiting.given.place[:2], [])
            if waiting not in found:
                return None
            del self._waiting[waiting.given.place[:2]]
            others = [other for other in found if other is not waiting]
            self._patience = PATIENCE if others else self._patience - 1
            return others

    def take(self, place: ThreadPlace) -> list[WaitingWrites]:
        """Return what waits in a namespace; from now on the caller sees to it, and says by ``tell`` how it went."""
        with self._lock:
            found = self._waiting.pop(place[:2], [])
            if found or place[:2] in self._alone:
                self._patience = PATIENCE
            return found


def tell(company: Sequence[WaitingWrites], *, stored: bool) -> None:
    """Say whether the writes were stored."""
    for waiting in company:
        if not waiting.stored.done():
            waiting.stored.set_result(stored)


@frozen
class PreparedPut:
    """A checkpoint to store. ``hint``: what is known of its namespace."""

    place: ThreadPlace
    parent: str | None
    metadata: dict[str, Json]
    encoded: EncodedCheckpoint
    hint: StoredHead | None


@frozen
class PreparedWrites:
    """Writes of a task to store. ``hint``: what is known of the namespace."""

    place: ThreadPlace
    task: str
    path: str
    encoded: EncodedWrites
    hint: StoredHead | None


class StoredPut(NamedTuple):
    """Where a checkpoint was stored: its thread, family and row (0 if there were only writes)."""

    thread: int
    family: str
    row: int


class ThreadWrites(ThreadReads):
    """The write operations in one dialect."""

    def store(self, put: PreparedPut | None, writes: Sequence[PreparedWrites]) -> Script[StoredPut]:
        """Store a checkpoint and writes of one namespace. ``BaseGone`` if what they reuse may be gone."""
        parts: list[PreparedWrites | PreparedPut] = [*writes, *([] if put is None else [put])]
        hint = next((part.hint for part in parts if part.hint is not None), None)
        key = thread_key(parts[0].place.thread)
        look = (self.threads.thread, (key,))
        (rows,) = (yield [look]) if hint is None else [[(hint.thread, hint.family)]]
        while not rows:
            # A family is in no run's id: it is never shown, and no one guesses it.
            made = (key, parts[0].place.thread, f"thread:{uuid4().hex}")
            _, rows = yield [(self.threads.new_thread, made), look]
        thread, family = rows[0]
        bases = {base.row: base for part in parts if (base := part.encoded.base) is not None}
        chunks = self.encryptor.encrypt_chunks(
            {key: data for part in parts for key, data in part.encoded.chunks.items()}, family
        )
        held = [(self.threads.has_turn, (base.row, base.turn)) for base in bases.values()]
        kept = [] if put is None else [self._checkpoint(put, thread, family)]
        # Questions to people replace what their task had asked before.
        asks = any(write.idx < 0 for given in writes for write in given.encoded.writes)
        if self.dialect.writes_in_one and hint is not None and len(held) < 2 and not asks:
            written = [self._write(given, write, thread, family) for given in writes for write in given.encoded.writes]
            known = key, thread, family, *(value for _, params in (*held, *kept) for value in params)
            sql = store_whole(self.dialect, put=bool(kept), base=bool(held))
            params = *known, dumps(written).decode(), family, *arrays_of(chunks)
            (rows,) = yield WholeBatch([(sql, params)])
            if rows:
                return StoredPut(thread, family, int(rows[0][0]))
        same, *rest = yield [
            look,
            *held,
            *kept,
            *(statement for given in writes for statement in self._writes(given, thread, family)),
            *insert_chunks(self.dialect, family, chunks),
        ]
        if [*map(tuple, same)] != [(thread, family)] or not all(rest[: len(held)]):
            raise BaseGone(key)
        return StoredPut(thread, family, rest[len(held)][0][0] if kept else 0)

    def _checkpoint(self, given: PreparedPut, thread: int, family: str) -> Statement:
        (_, ns, checkpoint), metadata, encoded = given.place, given.metadata, given.encoded
        identity = ("langgraph.checkpoint", family, ns, str(checkpoint))
        bound = bind_to_row(encoded.payload, checkpoint_row(family, ns, str(checkpoint), given.parent, metadata))
        return self.threads.put, (
            thread,
            ns,
            checkpoint,
            given.parent,
            plain_text(metadata.get("source")),
            whole_number(metadata.get("step")),
            run_key(metadata.get("run_id")),
            encoded.size,
            encoded.turn,
            self.encryptor.encrypt_document(dumps(metadata).decode(), *identity, "metadata"),
            self.encryptor.encrypt(bound, *identity),
        )

    def _writes(self, given: PreparedWrites, thread: int, family: str) -> list[Statement]:
        statements: list[Statement] = []
        for replacing in (False, True):
            chosen = [write for write in given.encoded.writes if (write.idx < 0) is replacing]
            for some in pages(chosen):
                rows = [value for write in some for value in self._write(given, write, thread, family)]
                statements.append((put_writes(self.dialect, len(some), replace=replacing), tuple(rows)))
        return statements

    def _write(self, given: PreparedWrites, write: EncodedWrite, thread: int, family: str) -> tuple[Any, ...]:
        (_, ns, checkpoint), task, path = given.place, given.task, given.path
        row = write_row(family, ns, str(checkpoint), task, write.idx, path, write.channel)
        identity = ("langgraph.write", family, ns, str(checkpoint), task, str(write.idx))
        body = self.encryptor.encrypt(bind_to_row(write.payload, row), *identity)
        return thread, ns, checkpoint, task, write.idx, path, write.channel, given.encoded.turn, body

    def copy(self, source: str, target: str) -> Script[None]:
        """Copy a thread with everything it has; they share its chunks. ``Conflict`` if the target exists."""
        (rows,) = yield [(self.threads.thread, (thread_key(source),))]
        if not rows:
            return
        thread, family = rows[0]
        (made,) = yield [(self.threads.new_thread, (thread_key(target), target, family))]
        if not made:
            raise Conflict(
                "the target thread exists already: copy into a fresh one, or delete it before", thread=target
            )
        ((copy,),) = made
        yield [(sql, (copy, thread)) for sql in self.threads.copies]


# Which checkpoints of a thread may go, decided without a database.


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A checkpoint of a thread without its values.

    ``deltas``: channels of which it says that they store changes. ``values``: channels with a whole value in it, read
    only in namespaces with such channels. ``caller``: the checkpoint of the root graph that a nested one began from.
    """

    row: int
    ns: str
    checkpoint: str
    parent: str | None
    caller: str | None
    deltas: frozenset[str]
    values: frozenset[str] = frozenset()


@frozen
class Removal:
    """What a pruning removes. ``orphans`` stay and lose their parent; ``calls`` are namespaces that go as a whole."""

    everything: bool = False
    removed: Sequence[Outline] = ()
    orphans: Sequence[Outline] = ()
    calls: Sequence[str] = ()

    @property
    def rows(self) -> frozenset[int]:
        """Return the rows that go."""
        return frozenset(one.row for one in self.removed)

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Return namespace and id of the checkpoints that go."""
        return frozenset((one.ns, one.checkpoint) for one in self.removed)


def keep_latest(outlines: Sequence[Outline]) -> Removal:
    """Keep the newest checkpoint of each namespace, and those that its value is made of.

    A call of a nested graph goes with the checkpoint of the root graph that it began from.
    """
    spaces = by_namespace(outlines)
    kept: set[int] = set()
    for ns, inside in spaces.items():
        newest = max(inside, key=lambda one: one.checkpoint)
        if not _is_over(newest, ns, spaces.get("", ())):
            kept.update(one.row for one in needed_by(newest, inside))
    removed = [one for one in outlines if one.row not in kept]
    names = {(one.ns, one.checkpoint) for one in outlines if one.row in kept}
    orphans = [one for one in outlines if one.row in kept and one.parent and (one.ns, one.parent) not in names]
    calls = [ns for ns, inside in spaces.items() if kept.isdisjoint(one.row for one in inside)]
    return Removal(removed=removed, orphans=orphans, calls=calls)


def _is_over(newest: Outline, ns: str, root: Collection[Outline]) -> bool:
    """Say whether a namespace is of a call that the root graph has left behind.

    The namespace of a graph that keeps its state over calls has no colon.
    """
    ids = [one.checkpoint for one in root]
    return ":" in ns and newest.caller in ids and newest.caller != max(ids)


def needed_by(newest: Outline, inside: Iterable[Outline]) -> list[Outline]:
    """Return a checkpoint and those before it that its value is made of."""
    by_id = {one.checkpoint: one for one in inside}
    missing = frozenset[str]().union(*(one.deltas for one in by_id.values())) - newest.values
    needed = [newest]
    # Not more than there are: a damaged chain may lead in a circle.
    while missing and len(needed) < len(by_id) and (older := by_id.get(needed[-1].parent or "")) is not None:
        needed.append(older)
        missing -= older.values
    return needed


def refuse_needed(outlines: Iterable[Outline], removed: Collection[Outline], thread: str) -> None:
    """Raise ``Conflict`` if the value of a checkpoint that stays is partly in one that would go."""
    gone = {one.row for one in removed}
    for inside in by_namespace(outlines).values():
        if not any(one.deltas for one in inside) or gone.isdisjoint(one.row for one in inside):
            continue
        for one in inside:
            if one.row in gone or not one.deltas:
                continue
            lost = [needed for needed in needed_by(one, inside) if needed.row in gone]
            if lost:
                raise Conflict(
                    f"checkpoint {one.checkpoint} of thread {thread!r} needs {lost[0].checkpoint}, which holds changes "
                    "of a DeltaChannel: nothing was removed. Delete the thread, or remove the later runs too",
                    thread=thread,
                    checkpoint=one.checkpoint,
                )


def by_namespace(outlines: Iterable[Outline]) -> dict[str, list[Outline]]:
    """Return outlines by namespace."""
    found: dict[str, list[Outline]] = {}
    for one in outlines:
        found.setdefault(one.ns, []).append(one)
    return found


def deltas_in(metadata: Mapping[str, object]) -> frozenset[str]:
    """Return the channels of which metadata says that they store changes."""
    counters = metadata.get("counters_since_delta_snapshot")
    return frozenset(counters) if isinstance(counters, Mapping) else frozenset()


ROOTS = 256
"""Rows per statement that are followed."""
IDENTITIES = {CHECKPOINT: "langgraph.checkpoint", WRITE: "langgraph.write"}
"""What a row's content is encrypted for, by table."""

Choose = Callable[[int, str], Script[Removal]]
"""Script of a thread and its family: what of it goes."""


@dataclass(kw_only=True)
class ThreadSurvey:
    """The state of a removal from one thread, and of the search for chunks of its family that nothing needs."""

    key: str
    thread: int
    family: str
    removal: Removal
    relatives: list[int]
    unreached: set[str]
    """Names of chunks."""
    reached: set[str] = field(default_factory=set)
    seen: set[tuple[str, int, str]] = field(default_factory=set)
    """Table, row and turn of what was followed."""

    def stays(self, table: str, thread: int, row: Sequence[Any]) -> bool:
        """Return whether a row of a thread of the family stays."""
        if thread != self.thread:
            return True
        if self.removal.everything or row[2] in self.removal.calls:
            return False
        return row[0] not in self.removal.rows if table == CHECKPOINT else (row[2], row[3]) not in self.removal.names


class ThreadPruning(ThreadWrites):
    """The phases in one dialect."""

    def threads_of_runs(self, runs: Sequence[str]) -> Script[list[tuple[str, str]]]:
        """Return key and name of the threads with checkpoints of these runs."""
        found: dict[str, str] = {}
        for page in pages(run_keys(runs)):
            (rows,) = yield [among(self.dialect, THREADS_OF_RUNS, page)]
            found |= dict(rows)
        return sorted(found.items())

    def survey(self, key: str, choose: Choose) -> Script[ThreadSurvey | None]:
        """Return what would be removed, and the chunks of the family; None if there is no such thread."""
        (rows,) = yield [(self.threads.look, (key,))]
        if not rows:
            return None
        thread, family = rows[0]
        # Chunks first: those of later writes are not in the survey, so they stay.
        hashes, relatives = yield [(self.sql.hashes, (family,)), (self.threads.relatives, (family,))]
        removal = yield from choose(thread, family)
        return ThreadSurvey(
            key=key,
            thread=thread,
            family=family,
            removal=removal,
            relatives=[relative for (relative,) in relatives],
            unreached={hash_ for (hash_,) in hashes},
        )

    def mark(self, survey: ThreadSurvey, thread: int, table: str, after: int) -> Script[int]:
        """Follow a page of what stays of a thread and return where the next one starts, 0 after the last."""
        (rows,) = yield [(self.threads.roots[table], (thread, after, ROOTS))]
        yield from self._follow(survey, table, [row for row in rows if survey.stays(table, thread, row)])
        return rows[-1][0] if len(rows) == ROOTS else 0

    def sweep(self, survey: ThreadSurvey, choose: Choose) -> Script[None]:
        """Remove what ``choose`` says by now, and the chunks that nothing needs."""
        relatives = yield from self._lock(survey.family)
        if survey.thread not in relatives:
            return
        removal = yield from choose(survey.thread, survey.family)
        yield from self._remove(survey, removal)
        if removal.everything and relatives == [survey.thread]:
            yield [(self.threads.drop_chunks, (survey.family,))]
            return
        yield from self._follow_new(survey, relatives)
        for hashes in pages(sorted(survey.unreached)):
            yield [among(self.dialect, DELETE_CHUNKS, hashes, survey.family)]

    # What goes

    def everything(self, thread: int, family: str) -> Script[Removal]:
        """Let all of a thread go."""
        yield from ()
        return Removal(everything=True)

    def all_but_latest(self, thread: int, family: str) -> Script[Removal]:
        """Keep the newest checkpoint of each namespace, and what its value is made of."""
        return keep_latest((yield from self._outlines(thread, family)))

    def of_runs(self, runs: Collection[str], name: str) -> Choose:
        """Let the checkpoints of runs go. ``Conflict`` if the value of another is partly in one of them."""

        def choose(thread: int, family: str) -> Script[Removal]:
            found: set[int] = set()
            for page in pages(run_keys(runs)):
                (rows,) = yield [among(self.dialect, ROWS_OF_RUNS, page, thread)]
                found.update(row for (row,) in rows)
            outlines = yield from self._outlines(thread, family)
            gone = [one for one in outlines if one.row in found]
            refuse_needed(outlines, gone, name)
            return Removal(removed=gone)

        return choose

    def _outlines(self, thread: int, family: str) -> Script[list[Outline]]:
        (rows,) = yield [(self.threads.outline, (thread,))]
        outlines = [self._outline(thread, family, *row) for row in rows]
        spaces = by_namespace(outlines)
        partial = [one.row for inside in spaces.values() if any(one.deltas for one in inside) for one in inside]
        values: dict[int, frozenset[str]] = {}
        for page in pages(partial):
            (read,) = yield [among(self.dialect, self.threads.by_row, page)]
            values |= {row[0]: frozenset(self.content(ThreadRow(*row))[1]["c"]) for row in read}
        return [replace(one, values=values.get(one.row, frozenset())) for one in outlines]

    def _outline(
        self, thread: int, family: str, row: int, ns: str, checkpoint: str, parent: str | None, metadata: str
    ) -> Outline:
        found = self.metadata(ThreadRow(row, thread, "", family, ns, checkpoint, parent, 0, "", metadata, ""))
        parents = found.get("parents")
        return Outline(
            row=row,
            ns=ns,
            checkpoint=checkpoint,
            parent=parent,
            caller=parents.get("") if isinstance(parents, dict) else None,
            deltas=deltas_in(found),
        )

    # Removing and following

    def _lock(self, family: str) -> Script[list[int]]:
        """Lock every thread of the family, including copies made while waiting, and return them."""
        threads: list[int] = []
        while True:
            (rows,) = yield [(self.threads.lock_relatives, (family,))]
            found = [thread for (thread,) in rows]
            if found == threads or not self.dialect.lock:
                return found
            threads = found

    def _remove(self, survey: ThreadSurvey, removal: Removal) -> Script[None]:
        thread, sql = survey.thread, self.threads
        if removal.everything:
            yield [(sql.drop_writes, (thread,)), (sql.drop_checkpoints, (thread,)), (sql.drop_thread, (thread,))]
            return
        for ns, gone in by_namespace(removal.removed).items():
            for page in pages(gone):
                names = [one.checkpoint for one in page]
                rows = [one.row for one in page]
                yield [among(self.dialect, DROP_ROWS, rows), among(self.dialect, DROP_WRITES, names, thread, ns)]
        for page in pages(removal.calls):
            yield [among(self.dialect, DROP_CALLS, page, thread)]
        for page in pages([one.row for one in removal.orphans]):
            (read,) = yield [among(self.dialect, self.threads.by_row, page)]
            yield [(sql.rebind, self._without_parent(ThreadRow(*row))) for row in read]

    def _without_parent(self, row: ThreadRow) -> tuple[Any, ...]:
        """Return what changes in a row that has no parent any more: its content is bound to that, too."""
        identity = ("langgraph.checkpoint", row.family, row.ns, row.checkpoint)
        metadata, _ = self.content(row)
        payload = payload_of(self.encryptor.decrypt(row.body, *identity)).encode()
        bound = bind_to_row(payload, checkpoint_row(row.family, row.ns, row.checkpoint, None, metadata))
        return new_turn(), self.encryptor.encrypt(bound, *identity), row.row

    def _follow_new(self, survey: ThreadSurvey, relatives: Sequence[int]) -> Script[None]:
        """Follow what was written since it was followed, or is followed only now because it stays after all."""
        for thread in relatives if survey.unreached else ():
            for table in IDENTITIES:
                (rows,) = yield [(self.threads.turns[table], (thread,))]
                new = [row for row, turn in rows if (table, row, turn) not in survey.seen]
                for page in pages(new):
                    (read,) = yield [among(self.dialect, ROOTS_BY_ROW[table], page)]
                    yield from self._follow(survey, table, read)

    def _follow(self, survey: ThreadSurvey, table: str, rows: Sequence[Sequence[Any]]) -> Script[None]:
        survey.seen.update((table, row[0], row[1]) for row in rows)
        if not survey.unreached:
            return
        try:
            values = [value for row in rows for value in self._values(survey.family, table, row)]
            wanted = {key for value in values for key in hashes_of(value)[1]} - survey.reached
            nodes = yield from self.fetch(survey.family, values, leaves=False, seen=survey.reached)
            wanted |= {key for node in nodes.values() for key in hashes_in(node)}
        except (Damaged, Incompatible):
            survey.unreached = set()
            return
        survey.reached |= wanted
        survey.unreached.difference_update(self.encryptor.names(survey.family, wanted))

    def _values(self, family: str, table: str, row: Sequence[Any]) -> list[Stored]:
        """Return the values in a row. ``Incompatible`` for a format that this code cannot follow."""
        _, _, *identity, body = row
        text = self.encryptor.decrypt(body, IDENTITIES[table], family, *map(str, identity))
        return stored_in(content_of(payload_of(text).encode()))


def run_keys(runs: Collection[str]) -> list[str]:
    """Return what the checkpoints of runs are found by."""
    return [key for run in runs if (key := run_key(run)) is not None]

"""Removes checkpoints and threads, and then the chunks that no thread of the family needs any more.

As ``checkpoints.sql.storage`` does for runs: chunks are listed, and what stays is followed, outside of any transaction;
the one that removes locks all threads of the family, follows what was written since, and deletes the rest of the list.
If something that stays cannot be followed, all chunks stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints.content.chunks import bind_to_row, payload_of
from checkpoints.errors import Conflict, Damaged, Incompatible
from checkpoints.langgraph.encoding import Stored, checkpoint_row, content_of, hashes_in, hashes_of, new_turn, stored_in
from checkpoints.langgraph.reads import (
    CHECKPOINT,
    WRITE,
    ThreadRow,
    drop_calls,
    drop_rows,
    drop_writes_of,
    pages,
    roots_by_id,
    rows_by_id,
    rows_of_runs,
    threads_of_runs,
)
from checkpoints.langgraph.values import run_key
from checkpoints.langgraph.writes import ThreadWrites
from checkpoints.sql.reads import Script
from checkpoints.sql.statements import delete_chunks

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


@dataclass(frozen=True, kw_only=True)
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
            (rows,) = yield [threads_of_runs(self.dialect, page)]
            found |= dict(rows)
        return sorted(found.items())

    def survey(self, key: str, choose: Choose) -> Script[ThreadSurvey | None]:
        """Return what would be removed, and the chunks of the family; None if there is no such thread."""
        (rows,) = yield [(self.threads.look, (key,))]
        if not rows:
            return None
        thread, family = rows[0]
        # Chunks first: those of later writes are not in the survey, so they stay.
        hashes, relatives = yield [(self.threads.hashes, (family,)), (self.threads.relatives, (family,))]
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
            yield [delete_chunks(self.dialect, survey.family, hashes)]

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
                (rows,) = yield [rows_of_runs(self.dialect, thread, page)]
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
            (read,) = yield [rows_by_id(self.dialect, page)]
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
                yield [drop_rows(self.dialect, rows), drop_writes_of(self.dialect, thread, ns, names)]
        for page in pages(removal.calls):
            yield [drop_calls(self.dialect, thread, page)]
        for page in pages([one.row for one in removal.orphans]):
            (read,) = yield [rows_by_id(self.dialect, page)]
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
                    (read,) = yield [roots_by_id(self.dialect, table, page)]
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

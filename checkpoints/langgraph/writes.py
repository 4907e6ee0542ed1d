"""What is written of threads, as generators: they yield batches of statements and receive their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

from checkpoints.content.canonical_json import dumps
from checkpoints.content.chunks import bind_to_row
from checkpoints.errors import Conflict
from checkpoints.langgraph.encoding import (
    EncodedCheckpoint,
    EncodedWrite,
    EncodedWrites,
    StoredHead,
    checkpoint_row,
    write_row,
)
from checkpoints.langgraph.reads import PARAMETERS, ThreadReads, put_writes
from checkpoints.langgraph.values import Json, ThreadPlace, plain_text, run_key, thread_key, whole_number
from checkpoints.sql.reads import Script
from checkpoints.sql.statements import Statement, insert_chunks
from checkpoints.sql.writes import BaseGone

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


@dataclass(frozen=True, kw_only=True)
class PreparedPut:
    """A checkpoint to store. ``hint``: what is known of its namespace."""

    place: ThreadPlace
    parent: str | None
    metadata: dict[str, Json]
    encoded: EncodedCheckpoint
    hint: StoredHead | None


@dataclass(frozen=True, kw_only=True)
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
        thread, family, look = yield from self._thread(parts[0].place, hint)
        bases = {base.row: base for part in parts if (base := part.encoded.base) is not None}
        chunks = {key: data for part in parts for key, data in part.encoded.chunks.items()}
        rows = yield [
            *look,
            *((self.threads.has_turn, (base.row, base.turn)) for base in bases.values()),
            *([] if put is None else [self._checkpoint(put, thread, family)]),
            *(statement for given in writes for statement in self._writes(given, thread, family)),
            *self._chunks(family, chunks),
        ]
        if hint is not None and [tuple(row) for row in rows[0]] != [(thread, family)]:
            raise BaseGone(hint.checkpoint)
        for base, found in zip(bases.values(), rows[len(look) :], strict=False):
            if not found:
                raise BaseGone(base.checkpoint)
        return StoredPut(thread, family, 0 if put is None else rows[len(look) + len(bases)][0][0])

    def _thread(self, place: ThreadPlace, hint: StoredHead | None) -> Script[tuple[int, str, list[Statement]]]:
        """Return a thread's key and family, and what the next batch has to begin with to make sure of them."""
        key = thread_key(place.thread)
        look = (self.threads.thread, (key,))
        if hint is not None:
            return hint.thread, hint.family, [look]
        (rows,) = yield [look]
        while not rows:
            # A family is in no run's id: it is never shown, and no one guesses it.
            made = (key, place.thread, f"thread:{uuid4().hex}")
            _, rows = yield [(self.threads.new_thread, made), look]
        thread, family = rows[0]
        return thread, family, []

    def _chunks(self, family: str, chunks: Mapping[str, bytes]) -> list[Statement]:
        if not chunks:
            return []
        # In the order of their names, so that two writers of the same ones do not wait for each other.
        stored = sorted(self.encryptor.encrypt_chunks(chunks, family).items())
        return insert_chunks(self.dialect, family, dict(stored))

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
        for replace in (False, True):
            chosen = [write for write in given.encoded.writes if (write.idx < 0) is replace]
            for at in range(0, len(chosen), PARAMETERS):
                some = chosen[at : at + PARAMETERS]
                rows = [value for write in some for value in self._write(given, write, thread, family)]
                statements.append((put_writes(self.dialect, len(some), replace=replace), tuple(rows)))
        return statements

    def _write(self, given: PreparedWrites, write: EncodedWrite, thread: int, family: str) -> tuple[Any, ...]:
        (_, ns, checkpoint), task, path = given.place, given.task, given.path
        row = write_row(family, ns, str(checkpoint), task, write.idx, path, write.channel)
        identity = ("langgraph.write", family, ns, str(checkpoint), task, str(write.idx))
        body = self.encryptor.encrypt(bind_to_row(write.payload, row), *identity)
        return thread, ns, checkpoint, task, write.idx, path, write.channel, write.turn, body

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
        yield [(self.threads.copy_checkpoints, (copy, thread)), (self.threads.copy_writes, (copy, thread))]

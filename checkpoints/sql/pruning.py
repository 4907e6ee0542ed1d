"""Mark and sweep: removes checkpoints and the chunks that no remaining checkpoint refers to.

In three phases, so that writers wait only for the last one:

1. *survey*: list the chunks of the family of runs (a run and its forks share content).
2. *mark*: follow every checkpoint that stays, page by page, outside of any transaction.
3. *sweep*, in one transaction under the lock of every run of the family: remove the checkpoints, follow those that
   were committed since, and remove the chunks of the survey that were not reached.

A commit increments its run's row before it writes anything, so none of the family is in progress during the sweep.
Anything written after the survey is never removed. If a checkpoint that stays cannot be followed (a newer format, or
damage), all chunks stay: the ones it needs are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from checkpoints import rules
from checkpoints.content.chunks import hashes_in, hashes_in_chunk
from checkpoints.errors import Damaged, Incompatible
from checkpoints.ids import CheckpointId, RunId
from checkpoints.records import FORMAT
from checkpoints.sql.reads import ReadScripts, Script
from checkpoints.sql.statements import Rows, delete_checkpoints, delete_chunks, select_roots

PAGE = 256
"""Roots, chunks or ids per statement."""


@dataclass(kw_only=True)
class Survey:
    """The state of a mark-and-sweep over one family of runs."""

    family: str
    run: RunId
    """The run whose checkpoints are removed."""
    runs: list[RunId]
    doomed: frozenset[CheckpointId]
    unreached: set[str]
    """Names of chunks."""
    reached: set[str] = field(default_factory=set)
    seen: set[CheckpointId] = field(default_factory=set)

    def give_up(self) -> None:
        """Keep every chunk."""
        self.unreached = set()


class Pruning(ReadScripts):
    """The three phases in one dialect."""

    def survey(self, run: RunId, doomed: Collection[CheckpointId]) -> Script[Survey | None]:
        """Return a family's chunks and runs; None if there is no such run."""
        (families,) = yield [(self.sql.family, (run,))]
        if not families:
            return None
        family = families[0][0]
        # Chunks first: those of later commits are not in the survey, so they stay.
        (hashes,) = yield [(self.sql.hashes, (family,))]
        (runs,) = yield [(self.sql.relatives, (family,))]
        found = {hash_ for (hash_,) in hashes}
        return Survey(family=family, run=run, runs=[id_ for (id_,) in runs], doomed=frozenset(doomed), unreached=found)

    def mark(self, survey: Survey, run: RunId, before: int) -> Script[int | None]:
        """Follow a page of a run's checkpoints and return where the next one starts, None after the last."""
        (rows,) = yield [(self.sql.roots, (run, before, PAGE))]
        survey.seen.update(row[1] for row in rows)
        doomed = survey.doomed if run == survey.run else ()
        yield from self._follow(survey, [row[:4] for row in rows if row[1] not in doomed])
        return rows[-1][4] if len(rows) == PAGE else None

    def sweep(self, survey: Survey) -> Script[int]:
        """Remove the checkpoints and the unreachable chunks, and return how many checkpoints were removed."""
        run, doomed = survey.run, survey.doomed
        runs = yield from self._lock(survey.family)
        (rows,) = yield [(self.sql.needed, (run, run, run))]
        rules.refuse_needed(run, [id_ for (id_,) in rows], doomed)
        removed = 0
        for ids in pages(doomed):
            (rows,) = yield [delete_checkpoints(self.dialect, run, ids)]
            removed += len(rows)
        if survey.unreached:
            yield from self._follow_new(survey, runs)
        for hashes in pages(survey.unreached):
            yield [delete_chunks(self.dialect, survey.family, hashes)]
        return removed

    def _lock(self, family: str) -> Script[list[RunId]]:
        """Lock every run of the family, including forks created while waiting, and return their ids."""
        runs: list[RunId] = []
        while True:
            (rows,) = yield [(self.sql.lock_relatives, (family,))]
            found = [id_ for (id_,) in rows]
            if found == runs or not self.dialect.lock:
                return found
            runs = found

    def _follow_new(self, survey: Survey, runs: Iterable[RunId]) -> Script[None]:
        new: set[CheckpointId] = set()
        for run in runs:
            (rows,) = yield [(self.sql.ids, (run,))]
            new.update(id_ for (id_,) in rows if id_ not in survey.seen)
        for ids in pages(new):
            (rows,) = yield [select_roots(self.dialect, ids)]
            yield from self._follow(survey, rows)

    def _follow(self, survey: Survey, roots: Rows) -> Script[None]:
        if not survey.unreached:
            return
        try:
            wanted = {hash_ for root in roots for hash_ in self._hashes(*root)} - survey.reached
            while wanted:
                wanted = (yield from self._level(survey, wanted)) - survey.reached
        except (Damaged, Incompatible):
            survey.give_up()

    def _level(self, survey: Survey, wanted: set[str]) -> Script[set[str]]:
        """Reach some chunks and return the hashes inside them."""
        inside: set[str] = set()
        for hashes in pages(wanted):
            found = yield from self.chunks(survey.family, hashes)
            if len(found) < len(hashes):
                raise Damaged("a chunk of a checkpoint is missing")
            for data in found.values():
                inside.update(hashes_in_chunk(data))
        survey.reached |= wanted
        survey.unreached.difference_update(self.encryptor.names(survey.family, wanted))
        return inside

    def _hashes(self, run: str, checkpoint: str, format_: int, body: str) -> list[str]:
        """Return the hashes a stored checkpoint refers to. ``Incompatible`` for a format this code cannot follow."""
        if format_ > FORMAT:
            raise Incompatible(f"a checkpoint has format {format_}, this code reads up to {FORMAT}")
        return hashes_in(self.encryptor.decrypt(body, "checkpoint", run, checkpoint))


def pages(ids: Iterable[str]) -> Iterable[list[str]]:
    """Return the ids in lists of at most ``PAGE``, in order."""
    ordered = sorted(ids)
    return (ordered[at : at + PAGE] for at in range(0, len(ordered), PAGE))

"""Retention: runs that ended long ago are removed with everything they have, a small batch at a time.

A run stays, however old, while it has the tag ``keep``, while a run of its family is open (its forks, what it was
forked from, its follow-ups and what it follows), while a worker has it, and until statistics and webhooks have read
its last event and its notifications were sent.

A run with very many rows goes in parts. The first one, which the audit entry is written with, takes it from everyone's
sight; what is left of it is deleted before anything else, after a crash or when another worker leads, too.

A batch is picked by reading alone. Its transaction locks the runs, which skips those that someone else has, and then
looks again at what keeps a run: all who reopen, tag, fork or follow up on one take the same lock.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from django.conf import settings

from checkpoints.database.alias import alias
from checkpoints.database.clock import database_now
from checkpoints.database.runs import (
    MOST_AT_ONCE,
    RemovedPart,
    RemovedRuns,
    begin_removal,
    remove_locked,
    remove_part,
)
from checkpoints.database.storage import write
from checkpoints.models import Run
from wfdash.actions.audit import entries
from wfdash.actions.retention import archive
from wfdash.actions.runs.content import drop_content
from wfdash.actions.sweep_backoff import is_outage
from wfdash.installation.keep_rules import KeepRules
from wfdash.retention.keeping import VERB, Ending, current_rules, free_to_go, in_order, old_runs

log = logging.getLogger(__name__)

CANDIDATES = 500
"""Runs picked by one query."""
ROWS_BESIDE = 12
"""Rows that a run has beside its events and checkpoints, about."""
COUNTED = {"events": "Event", "checkpoints": "Checkpoint", "requests": "HumanRequest"}
"""What the audit says of a batch: how many rows of these went with its runs."""


@dataclass(frozen=True, kw_only=True)
class OldRun:
    """A run that may go, as it was when it was picked: a later ``version`` means that it has changed."""

    at: Ending
    version: tuple[Any, ...]
    rows: int


@dataclass(frozen=True, kw_only=True)
class RemovedBatch:
    """What was removed. ``seconds``: for how long others could not write, on SQLite. ``last``: no run is left that may
    go.
    """

    runs: Sequence[str] = ()
    rows: int = 0
    seconds: float = 0.0
    last: bool = True


@dataclass(frozen=True, kw_only=True)
class BatchSize:
    """Rows that the next batch may remove, so that its transaction takes about ``TARGET`` seconds."""

    rows: int = 1_000

    TARGET = 0.04
    LEAST, MOST = 1_000, 20_000

    def after(self, rows: int, seconds: float) -> BatchSize:
        """Return the size that follows a batch of so many rows: at most twice as large."""
        fitting = rows * self.TARGET / max(seconds, 0.0001)
        return replace(self, rows=int(min(max(fitting, self.LEAST), self.rows * 2, self.MOST)))


class RunRemover:
    """Removes what the setting no longer keeps, in the order in which runs ended, from where the last batch ended.

    Runs whose removal has begun come first, by this worker or another. A run that cannot be removed holds up no other:
    it is logged, passed over, and tried again when the oldest run is next.
    """

    def __init__(self, size: BatchSize | None = None) -> None:
        self._size = size or BatchSize()
        self._picked: list[OldRun] = []
        self._after: Ending | None = None
        self._begun: list[str] = []
        self._failed: set[str] = set()
        self._singly = 0
        """How many of those picked are removed one by one, because a batch with one of them failed."""

    def remove_next(self) -> RemovedBatch:
        """Remove the next batch. Its ``last`` says that the next one begins with the oldest run again."""
        rules = current_rules()
        if not self._picked and not self._begun:
            self._look(rules)
        if self._begun:
            batch = self._remove_rest(self._begun[0])
        elif rules and self._picked:
            batch = self._remove(self._next(), rules)
        else:
            self._failed.clear()
            return RemovedBatch()
        if batch.rows:
            self._size = self._size.after(batch.rows, batch.seconds)
        return batch

    def _remove_rest(self, run: str) -> RemovedBatch:
        try:
            batch = remove_rest(run, self._size.rows)
        except Exception as error:
            self._pass_over([run], error)
            batch = RemovedBatch()
        if batch.last:
            self._begun.pop(0)
        return replace(batch, last=False)

    def _remove(self, found: list[OldRun], rules: KeepRules) -> RemovedBatch:
        is_large = found[0].rows > max(self._size.rows, MOST_AT_ONCE)
        try:
            batch = remove(found, rules, in_parts=is_large)
        except Exception as error:
            self._pass_over([one.at.run for one in found], error)
            if len(found) > 1:
                self._picked, self._singly = found + self._picked, len(found)
            return RemovedBatch(last=False)
        self._begun += batch.runs if is_large else ()
        return batch

    def _pass_over(self, runs: Sequence[str], error: Exception) -> None:
        """Note a run that fails; of several the one that does is found next. What says nothing of runs is raised."""
        if is_outage(error) or isinstance(error, OSError):
            raise error
        if len(runs) == 1:
            self._failed.update(runs)
            log.error("Run %s cannot be removed, and is retried later", *runs, exc_info=error)

    def _look(self, rules: KeepRules) -> None:
        begun = Run.remains.exclude(pk__in=self._failed).order_by("pk")
        self._begun = list(begun.values_list("pk", flat=True)[:CANDIDATES])
        if rules and not self._begun:
            self._picked = pick(rules, self._after)
            self._after = self._picked[-1].at if self._picked else None

    def _next(self) -> list[OldRun]:
        """Return the first of what was picked, as many as fit into a batch but at least one, and pick them no more."""
        total = list(accumulate(one.rows for one in self._picked))
        count = 1 if self._singly else max(1, bisect_right(total, self._size.rows))
        self._singly = max(0, self._singly - 1)
        found, self._picked = self._picked[:count], self._picked[count:]
        return found


def pick(rules: KeepRules, after: Ending | None = None, limit: int = CANDIDATES) -> list[OldRun]:
    """Return the next runs that may go, the one that ended first first. Reads alone."""
    runs = in_order(old_runs(rules, database_now()), after)
    return [_candidate(run) for run in free_to_go(runs).only("id", *VERSION)[:limit]]


VERSION = ("phase", "finished", "seq", "n", "epoch", "updated")
"""Columns of which one changes with whatever is done to a run. As long as none does, it is as old as it was."""


def _candidate(run: Run) -> OldRun:
    at = Ending(finished=run.finished, run=run.pk)
    return OldRun(at=at, version=_version(run), rows=run.seq + run.n + ROWS_BESIDE)


def _version(run: Run) -> tuple[Any, ...]:
    return tuple(getattr(run, name) for name in VERSION)


def remove(found: Sequence[OldRun], rules: KeepRules, *, in_parts: bool = False) -> RemovedBatch:
    """Remove these runs, in one transaction with its audit entry, but for those that something keeps now.

    Where there is an archive they are in it before; one that cannot be written there stays. ``in_parts``: of a single
    one most rows are left to ``remove_rest``.
    """
    versions, facts = {one.at.run: one.version for one in found}, dict[str, Any]()
    if settings.WFDASH_ARCHIVE:
        facts["archive"], archived = archive.archive_runs(Path(settings.WFDASH_ARCHIVE), list(versions), database_now())
        versions = {run: versions[run] for run in archived}
    rows = Run.objects.filter(pk__in=versions).order_by().only("id", *VERSION).select_for_update(skip_locked=True)
    free = free_to_go(Run.objects.filter(pk__in=versions)).values_list("pk", flat=True)
    with write():
        began = time.monotonic()  # The wait for other writers is not its own.
        same = {run.pk for run in rows if _version(run) == versions[run.pk]}
        # Only now, in a statement of its own: it sees what those have written who had the locks before.
        runs = sorted(same.intersection(free), key=list(versions).index) if same else []
        removed = RemovedRuns()
        if runs:
            removed = begin_removal(alias(), *runs) if in_parts else remove_locked(alias(), runs)
            facts |= {"runs": runs, "days": rules.as_json(), **_counts(removed)}
            entries.record(None, VERB, facts=facts, right="retention", actor=entries.MACHINE)
    seconds = time.monotonic() - began
    drop_content(removed.relatives)
    return RemovedBatch(runs=runs, rows=removed.rows, seconds=seconds, last=False)


def remove_rest(run: str, rows: int) -> RemovedBatch:
    """Delete at most so many rows of what is left of a run; ``last``: nothing is, or another worker has it."""
    with write():
        began = time.monotonic()
        free = Run.remains.filter(pk=run).order_by().select_for_update(skip_locked=True).values_list("pk", flat=True)
        part = remove_part(alias(), run, rows) if list(free) else RemovedPart(rows=0, last=True)
    seconds = time.monotonic() - began
    drop_content(part.relatives)
    return RemovedBatch(rows=part.rows, seconds=seconds, last=part.last)


def _counts(removed: RemovedRuns) -> dict[str, int]:
    return {name: removed.counts.get(f"checkpoints.{model}", 0) for name, model in COUNTED.items()}

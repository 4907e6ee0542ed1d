"""Retention: runs that ended long ago are removed with everything they have, a small batch at a time.

A run stays, however old, while it has the tag ``keep``, while a run of its family is open (its forks, what it was
forked from, its follow-ups and what it follows), while a worker has it, and until statistics and webhooks have read
its last event and its notifications were sent.

A batch is picked by reading alone. Its transaction locks the runs, which skips those that someone else has, and then
looks again at what keeps a run: all who reopen, tag, fork or follow up on one take the same lock.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from django.db.models.lookups import GreaterThan

from checkpoints.database.alias import alias
from checkpoints.database.clock import database_now
from checkpoints.database.high_water_mark import STATISTICS
from checkpoints.database.removal import RemovedRuns, remove_locked
from checkpoints.database.storage import write
from checkpoints.models import Claim, Event, Notice, Run, TallyMark, Webhook
from checkpoints.records import ENDED, Phase
from wfdash.actions.audit import entries
from wfdash.actions.hooks import feed
from wfdash.actions.retention import archive
from wfdash.actions.runs.content import drop_content
from wfdash.actions.runs.tags import KEPT
from wfdash.installation.keep_rules import KeepRules, keep_rules
from wfdash.notifications.kinds import BROWSER

log = logging.getLogger(__name__)

VERB = "delete-old"
CANDIDATES = 500
"""Runs picked by one query."""
REST = 3.0
"""Times as long as a batch took, the next one waits."""
LEAST_REST, LONGEST_REST = 0.02, 0.9
ROWS_BESIDE = 12
"""Rows that a run has beside its events and checkpoints, about."""
OPEN_PHASES = frozenset(Phase) - ENDED
NOTHING = RemovedRuns(relatives=(), counts={})
COUNTED = {"events": "Event", "checkpoints": "Checkpoint", "requests": "HumanRequest"}
"""What the audit says of a batch: how many rows of these went with its runs."""


@dataclass(frozen=True, kw_only=True, order=True)
class Ending:
    """A place in the order in which runs ended."""

    finished: datetime
    run: str


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
    """Removes what the setting no longer keeps, in the order in which runs ended, from where the last batch ended."""

    def __init__(self, size: BatchSize | None = None) -> None:
        self._size = size or BatchSize()
        self._picked: list[OldRun] = []
        self._after: Ending | None = None

    def remove_next(self) -> RemovedBatch:
        """Remove the next batch. Its ``last`` says that the next one begins with the oldest run again."""
        rules = current_rules()
        if rules and not self._picked:
            self._picked = pick(rules, self._after)
            self._after = self._picked[-1].at if self._picked else None
        if not rules or not self._picked:
            return RemovedBatch()
        found = self._next()
        batch = remove(found, rules)
        if batch.runs:
            self._size = self._size.after(batch.rows, batch.seconds)
        return batch

    def _next(self) -> list[OldRun]:
        """Return the first of what was picked, as many as fit into a batch but at least one, and pick them no more."""
        total = list(accumulate(one.rows for one in self._picked))
        count = max(1, bisect_right(total, self._size.rows))
        found, self._picked = self._picked[:count], self._picked[count:]
        return found


def rest_after(batch: RemovedBatch) -> float:
    """Return the seconds for others to write before the next batch: most of the time is theirs."""
    return min(max(batch.seconds * REST, LEAST_REST), LONGEST_REST)


def current_rules() -> KeepRules:
    """Return for how long runs are kept here."""
    return keep_rules(settings.WFDASH_KEEP_RUNS)


def old_runs(rules: KeepRules, now: datetime) -> QuerySet[Run]:
    """Return the runs that ended so long ago that their workflow's rule no longer keeps them."""
    old = Q(pk__in=[])
    for workflow, days in rules.named.items():
        if days is not None:
            old |= Q(workflow=workflow, finished__lt=now - timedelta(days=days))
    if rules.default is not None:
        others = ~Q(workflow__in=list(rules.named)) if rules.named else Q()
        old |= others & Q(finished__lt=now - timedelta(days=rules.default))
    # The nearest end of all, so that the index of ends is read no further. Not "phase in": SQLite would take the index
    # that begins with it, and sort every old run for the first few.
    ended = Run.objects.filter(finished__lt=now - timedelta(days=rules.shortest or 0)).exclude(phase__in=OPEN_PHASES)
    return ended.filter(old)


def free_to_go(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return those of these runs that nothing keeps but their age."""
    for kept in KEPT_BY.values():
        runs = runs.exclude(kept())
    return runs


def is_tagged_keep() -> Q:
    """Return the condition that people keep a run, by its tag."""
    return Q(Exists(KEPT.filter(run=OuterRef("pk"))))


def _has_open_relatives() -> Q:
    return Q(Exists(Run.objects.filter(family=OuterRef("family")).exclude(phase__in=ENDED)))


def _is_claimed() -> Q:
    return Q(Exists(Claim.objects.filter(run=OuterRef("pk"), expires__gt=Now())))


def _is_unread() -> Q:
    """Return the condition that statistics or webhooks have not read a run to its end."""
    marks = [STATISTICS, feed.MARK] if Webhook.objects.filter(active=True).exists() else [STATISTICS]
    read = dict(TallyMark.objects.filter(pk__in=marks).values_list("pk", "event"))
    last = Event.objects.filter(run=OuterRef("pk")).order_by("-seq").values("pk")[:1]
    return Q(GreaterThan(Coalesce(Subquery(last), 0), min(read.get(mark, 0) for mark in marks)))


def _has_unsent() -> Q:
    """Return the condition that a notification about a run is still to be sent, or an answer's callback."""
    unsent = Notice.objects.filter(sent__isnull=True, given_up__isnull=True).exclude(channel=BROWSER)
    callbacks = Webhook.objects.filter(run=OuterRef("pk")).filter(Exists(unsent.filter(target=OuterRef("pk"))))
    return Q(Exists(unsent.filter(request__run=OuterRef("pk")))) | Q(Exists(callbacks))


KEPT_BY = {
    "tag": is_tagged_keep,
    "family": _has_open_relatives,
    "claim": _is_claimed,
    "unread": _is_unread,
    "unsent": _has_unsent,
}
"""What keeps a run that is old enough to go."""


def pick(rules: KeepRules, after: Ending | None = None, limit: int = CANDIDATES) -> list[OldRun]:
    """Return the next runs that may go, the one that ended first first. Reads alone."""
    runs = old_runs(rules, database_now()).order_by("finished", "id")
    if after is not None:
        runs = runs.filter(Q(finished__gt=after.finished) | Q(finished=after.finished, pk__gt=after.run))
        runs = runs.filter(finished__gte=after.finished)
    return [_candidate(run) for run in free_to_go(runs).only("id", *VERSION)[:limit]]


VERSION = ("phase", "finished", "seq", "n", "epoch", "updated")
"""Columns of which one changes with whatever is done to a run. As long as none does, it is as old as it was."""


def _candidate(run: Run) -> OldRun:
    at = Ending(finished=run.finished, run=run.pk)
    return OldRun(at=at, version=_version(run), rows=run.seq + run.n + ROWS_BESIDE)


def _version(run: Run) -> tuple[Any, ...]:
    return tuple(getattr(run, name) for name in VERSION)


def remove(found: Sequence[OldRun], rules: KeepRules) -> RemovedBatch:
    """Remove these runs, in one transaction with its audit entry, but for those that something keeps now.

    Where there is an archive they are in it before; one that cannot be written there stays.
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
        removed = remove_locked(alias(), runs) if runs else NOTHING
        if runs:
            facts |= {"runs": runs, "days": rules.as_json(), **_counts(removed)}
            entries.record(None, VERB, facts=facts, right="retention", actor=entries.MACHINE)
    seconds = time.monotonic() - began
    drop_content(removed.relatives)
    return RemovedBatch(runs=runs, rows=sum(removed.counts.values()), seconds=seconds, last=False)


def _counts(removed: RemovedRuns) -> dict[str, int]:
    return {name: removed.counts.get(f"checkpoints.{model}", 0) for name, model in COUNTED.items()}

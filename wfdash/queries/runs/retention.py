"""What retention would remove now and what keeps the other old runs, for people to look at before; and of one run
when it goes, or why it does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Case, Q, When
from django.utils import timezone

from checkpoints.database.clock import database_now
from checkpoints.models import AuditEntry, Run
from checkpoints.records import ENDED, Phase
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.errors import NotAllowed
from wfdash.engines import catalog
from wfdash.installation.keep_rules import KeepRules
from wfdash.queries.runs.keeping import KEPT_BY, REASONS, VERB, Ending, current_rules, in_order, old_runs
from wfdash.records.runs import RemovalRecord

RUNS_PER_STATEMENT = 1_000
"""Old runs looked at by one statement each."""
LOOKED_THROUGH = 1_000
"""The newest entries of the audit that are of no run, among which the last batch is looked for."""
OVERDUE = timedelta(hours=1)
"""Runs may be due for so long, and nothing be removed, before that is worth a word: workers look each minute."""
BEFOREHAND = ("tag", "family")
"""What keeps a run that is not old yet for as long as it lasts; the rest passes."""


@dataclass(frozen=True, kw_only=True)
class WorkflowPlan:
    """The runs of a workflow that go: how many, and when the first and the last of them ended."""

    workflow: str
    days: float | None
    runs: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True, kw_only=True)
class RetentionPlan:
    """What goes, by workflow, and how many old runs stay, by what keeps them; one may have several reasons.

    ``more``: there are more old runs than were looked at.
    """

    removed: tuple[WorkflowPlan, ...] = ()
    kept: Mapping[str, int]
    more: bool = False

    @property
    def runs(self) -> int:
        """Return how many runs go."""
        return sum(one.runs for one in self.removed)


@dataclass(frozen=True, kw_only=True)
class LastBatch:
    """The last removal: when, how many runs, and its entry in the audit."""

    at: datetime
    runs: int
    entry: int


@dataclass(frozen=True, kw_only=True)
class Retention:
    """For how long ended runs are kept, what goes now, and what went last; None if nothing was removed lately.

    ``workflows``: name -> days, None: always; of those that a person operates. ``archived``: whether runs are written
    to an archive before; its folder, ``archive``, is only for who administers all workflows. ``stalled``: no worker
    seems to remove what goes.
    """

    rules: KeepRules
    workflows: Mapping[str, float | None]
    plan: RetentionPlan
    archived: bool
    archive: str
    last: LastBatch | None
    stalled: bool


def plan_removal(rules: KeepRules, scope: Q | None = None, most: int | None = None) -> RetentionPlan:
    """Return what would be removed now, of the runs of a scope. Reads every old run, or stops after ``most``."""
    free, kept, looked_at = dict[str, list[datetime]](), Counter[str](), 0
    for found in _chunks(rules, scope or Q()):
        by = {name: _kept_by(name, found) for name in KEPT_BY}
        kept.update({name: len(runs) for name, runs in by.items()})
        for run in found:
            if not any(run.pk in runs for runs in by.values()):
                free.setdefault(run.workflow, []).append(run.finished)
        looked_at += len(found)
        if most is not None and looked_at >= most:
            break
    plans = (
        WorkflowPlan(workflow=workflow, days=rules.days(workflow), runs=len(ends), oldest=ends[0], newest=ends[-1])
        for workflow, ends in sorted(free.items())
    )
    return RetentionPlan(
        removed=tuple(plans),
        kept={REASONS[name]: kept[name] for name in KEPT_BY if kept[name]},
        more=most is not None and looked_at >= most,
    )


def _chunks(rules: KeepRules, scope: Q) -> Iterator[list[Run]]:
    """Yield the old runs in the order in which they ended, so many at a time."""
    runs, after = old_runs(rules, database_now()).filter(scope), None
    while found := list(in_order(runs, after).only("id", "workflow", "finished")[:RUNS_PER_STATEMENT]):
        yield found
        after = Ending(finished=found[-1].finished, run=found[-1].pk)
        if len(found) < RUNS_PER_STATEMENT:
            break


def _kept_by(name: str, runs: list[Run]) -> set[str]:
    chosen = Run.objects.filter(pk__in=[run.pk for run in runs]).order_by()
    return set(chosen.filter(KEPT_BY[name]()).values_list("pk", flat=True))


def read_retention(viewer: Viewer) -> Retention:
    """Return what is kept here and what goes, of the workflows that a person operates. ``NotAllowed`` for others.

    One query without a rule; else about ten, of at most ``RUNS_PER_STATEMENT`` old runs.
    """
    if not viewer.may_anywhere("operate"):
        raise NotAllowed("Retention is for the operators of a workflow")
    rules = current_rules()
    plan = plan_removal(rules, viewer.scope("operate"), RUNS_PER_STATEMENT) if rules else RetentionPlan(kept={})
    last = _last_batch() if rules else None
    return Retention(
        rules=rules,
        workflows={name: rules.days(name) for name in _operated(viewer, rules)},
        plan=plan,
        archived=bool(settings.WFDASH_ARCHIVE),
        archive=settings.WFDASH_ARCHIVE if viewer.may("admin", EVERY) else "",
        last=last,
        stalled=_is_stalled(plan, last),
    )


def removal_stalled() -> bool:
    """Return whether runs could have gone for an hour, and none did: no worker removes them, or none can.

    About ten queries, of the ``RUNS_PER_STATEMENT`` oldest runs that are due.
    """
    rules = current_rules()
    return bool(rules) and _is_stalled(plan_removal(rules, most=RUNS_PER_STATEMENT), _last_batch())


def _is_stalled(plan: RetentionPlan, last: LastBatch | None) -> bool:
    """Never where this copy is held (``WFDASH_HOLD``): there nothing is to be removed."""
    due = [one.oldest + timedelta(days=one.days) for one in plan.removed if one.days is not None]
    if not due or settings.WFDASH_HOLD:
        return False
    since = database_now() - OVERDUE
    return min(due) < since and (last is None or last.at < since)


def _operated(viewer: Viewer, rules: KeepRules) -> list[str]:
    """Return the names of the workflows that have a rule of their own or are served, and that a person operates."""
    return sorted(name for name in {*catalog.titles(), *rules.named} if viewer.may("operate", name))


def _last_batch() -> LastBatch | None:
    newest = AuditEntry.objects.filter(run="").order_by("-n").values_list("n", flat=True)[:LOOKED_THROUGH]
    entry = AuditEntry.objects.filter(n__in=list(newest), verb=VERB).order_by("-n").first()
    return None if entry is None else LastBatch(at=entry.at, runs=len(entry.facts.get("runs", ())), entry=entry.n)


def removal_of(run: Run) -> RemovalRecord | None:
    """Return when an ended run goes (one query); None for one that has not ended, and where no run ever goes."""
    rules = current_rules()
    if not rules or run.finished is None or Phase(run.phase) not in ENDED:
        return None
    at = rules.removed_at(run.workflow, run.finished)
    if at is None:
        return RemovalRecord.trusted(at=None, days=None)
    names = tuple(KEPT_BY) if at <= timezone.now() else BEFOREHAND
    asked = (Case(When(KEPT_BY[name](), then=True), default=False) for name in names)
    found = Run.objects.filter(pk=run.pk).order_by().values_list(*asked).first() or ()
    kept = tuple(name for name, keeps in zip(names, found, strict=False) if keeps)
    return RemovalRecord.trusted(at=at, days=rules.days(run.workflow), kept_by=kept)

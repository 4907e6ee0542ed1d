"""For how long ended runs are kept: what would be removed now, what keeps a run for longer, and when one goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce, Now
from django.db.models.lookups import GreaterThan
from django.utils import timezone

from checkpoints.database.clock import database_now
from checkpoints.database.high_water_mark import STATISTICS, WEBHOOKS
from checkpoints.models import AuditEntry, Claim, Event, Notice, Run, RunFact, TallyMark, Webhook
from checkpoints.records import ENDED, Phase, frozen
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain import search_attributes
from wfdash.domain.errors import NotAllowed
from wfdash.engines import catalog
from wfdash.installation.keep_rules import KeepRules, keep_rules
from wfdash.notifications.preferences import BROWSER
from wfdash.records.runs import RemovalRecord

VERB = "delete-old"
"""The audit's word for a batch of old runs that went."""
KEPT = RunFact.objects.filter(name=search_attributes.TAG, text=search_attributes.KEEP)
"""The tags by which runs are kept."""
OPEN_PHASES = frozenset(Phase) - ENDED


@dataclass(frozen=True, kw_only=True, order=True)
class Ending:
    """A place in the order in which runs ended."""

    finished: datetime
    run: str


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


def in_order(runs: QuerySet[Run], after: Ending | None = None) -> QuerySet[Run]:
    """Return these runs, the one that ended first first; those behind a place."""
    runs = runs.order_by("finished", "id")
    if after is None:
        return runs
    behind = Q(finished__gt=after.finished) | Q(finished=after.finished, pk__gt=after.run)
    # Said twice, so that the index of ends is read from there.
    return runs.filter(behind).filter(finished__gte=after.finished)


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
    marks = [STATISTICS, WEBHOOKS] if Webhook.objects.filter(active=True).exists() else [STATISTICS]
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
REASONS: Mapping[str, str] = {
    "tag": "the tag keep",
    "family": "an open run of the same family",
    "claim": "a worker that has it",
    "unread": "statistics or webhooks that have not read its end",
    "unsent": "a notification that is still to be sent",
}
"""What keeps it, in words."""


RUNS_PER_STATEMENT = 1_000
"""Old runs looked at by one statement each."""
LOOKED_THROUGH = 1_000
"""The newest entries of the audit that are of no run, among which the last batch is looked for."""
OVERDUE = timedelta(hours=1)
"""Runs may be due for so long, and nothing be removed, before that is worth a word: workers look each minute."""
BEFOREHAND = ("tag", "family")
"""What keeps a run that is not old yet for as long as it lasts; the rest passes."""


@frozen
class WorkflowPlan:
    """The runs of a workflow that go: how many, and when the first and the last of them ended."""

    workflow: str
    days: float | None
    runs: int
    oldest: datetime
    newest: datetime


@frozen
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


@frozen
class LastBatch:
    """The last removal: when, how many runs, and its entry in the audit."""

    at: datetime
    runs: int
    entry: int


@frozen
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
        workflows={
            name: rules.days(name) for name in sorted({*catalog.titles(), *rules.named}) if viewer.may("operate", name)
        },
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


def _last_batch() -> LastBatch | None:
    newest = AuditEntry.objects.filter(run="").order_by("-n").values_list("n", flat=True)[:LOOKED_THROUGH]
    entry = AuditEntry.objects.filter(n__in=list(newest), verb=VERB).order_by("-n").first()
    return None if entry is None else LastBatch(at=entry.at, runs=len(entry.facts.get("runs", ())), entry=entry.n)


def removal_of(run: Run) -> RemovalRecord | None:
    """Return when an ended run goes (one query); None for one that has not ended, and where no run ever goes."""
    rules = current_rules()
    if not rules or run.finished is None or Phase.stored(run.phase) not in ENDED:
        return None
    at = rules.removed_at(run.workflow, run.finished)
    if at is None:
        return RemovalRecord.trusted(at=None, days=None)
    names = tuple(KEPT_BY) if at <= timezone.now() else BEFOREHAND
    asked = (Case(When(KEPT_BY[name](), then=True), default=False) for name in names)
    found = Run.objects.filter(pk=run.pk).order_by().values_list(*asked).first() or ()
    kept = tuple(name for name, keeps in zip(names, found, strict=False) if keeps)
    return RemovalRecord.trusted(at=at, days=rules.days(run.workflow), kept_by=kept)

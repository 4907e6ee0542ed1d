"""For how long ended runs are kept, and what keeps one for longer: for the removal, and for those who look before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from django.db.models.lookups import GreaterThan

from checkpoints.database.high_water_mark import STATISTICS, WEBHOOKS
from checkpoints.models import Claim, Event, Notice, Run, RunFact, TallyMark, Webhook
from checkpoints.records import ENDED, Phase
from wfdash.domain import search_attributes
from wfdash.installation.keep_rules import KeepRules, keep_rules
from wfdash.notifications.preferences import BROWSER

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

"""What there is to do beside the runs, found by one statement: a look each second that mostly finds nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints.database import timers
from checkpoints.database.compiled.first_values import FirstValues
from checkpoints.models import Event, TallyMark
from wfdash.actions.hooks import feed
from wfdash.actions.requests import announce
from wfdash.actions.runs import bulk, cancellation, migrate, search_index, signals
from wfdash.actions.statistics import metrics_store
from wfdash.worker.jobs import outbox

_look = FirstValues(
    answers=timers.SETTLING.values_list("settles"),
    alarms=timers.ALARMS.values_list("alarm"),
    schedules=timers.SCHEDULES.values_list("next_at"),
    notices=outbox.UNSENT.order_by("due").values_list("due"),
    unannounced=announce.UNANNOUNCED.values_list("pk"),
    ending=cancellation.ENDING.values_list("pk"),
    receivable=signals.RECEIVABLE.values_list("pk"),
    unlisted=search_index.UNLISTED.values_list("pk"),
    failures=search_index.FAILURES.values_list("pk"),
    bulks=bulk.UNFINISHED.values_list("pk"),
    held=migrate.HELD.values_list("pk"),
    hooks=feed.ACTIVE.values_list("pk"),
    fed=TallyMark.objects.filter(pk=feed.MARK).values_list("event"),
    counted=TallyMark.objects.filter(pk=metrics_store.MARK).values_list("event"),
    event=Event.objects.order_by("-pk").values_list("pk"),
)


@dataclass(frozen=True)
class DueWork:
    """What a look found: the first of each kind, and the database's time."""

    now: datetime
    first: Mapping[str, Any]

    def has(self, *kinds: str) -> bool:
        """Return whether there is something of these kinds, whose time has come if it has one."""
        found = (self.first.get(kind) for kind in kinds)
        return any(one <= self.now if isinstance(one, datetime) else one is not None for one in found)

    def has_events_after(self, mark: str) -> bool:
        """Return whether there are events after a mark, ``counted`` or ``fed``."""
        return int(self.first.get("event", 0)) > int(self.first.get(mark, 0))

    def seconds_to_next(self) -> float:
        """Return the seconds until the time of something comes, infinity if nothing has one."""
        moments = (one for one in self.first.values() if isinstance(one, datetime) and one > self.now)
        return min(((at - self.now).total_seconds() for at in moments), default=math.inf)


def look() -> DueWork:
    """Look what there is to do (one statement)."""
    return DueWork(*_look.read())

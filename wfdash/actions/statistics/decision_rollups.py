"""Stores days of decisions that are added up, and forgets old ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from checkpoints.database.storage import write
from checkpoints.models.operations import DecisionRollup

KEPT = timedelta(days=40)
"""More than the longest range of the statistics."""


def keep_day(
    since: datetime, until: datetime, data: Mapping[str, str], *, count: int, reversed_by_now: int, groups: str
) -> None:
    """Replace what is stored of a day: workflow -> its decisions, packed."""
    facts = {"since": since, "until": until, "count": count, "reversed": reversed_by_now, "groups": groups}
    rows = [DecisionRollup(workflow=workflow, data=text, **facts) for workflow, text in sorted(data.items())]
    with write():
        DecisionRollup.objects.filter(since=since).delete()
        DecisionRollup.objects.bulk_create(rows, batch_size=200)


def forget(now: datetime) -> int:
    """Delete the days that no range needs. Returns how many rows that were."""
    with write():
        return DecisionRollup.objects.filter(since__lt=now - KEPT).delete()[0]

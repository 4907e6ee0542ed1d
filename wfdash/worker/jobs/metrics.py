"""Counts what happened, beside the runs, in small portions."""

from __future__ import annotations

import logging
import math
import time

from checkpoints.database.clock import database_now
from checkpoints.database.high_water_mark import HighWaterMark
from wfdash.actions.pacing import rest_after
from wfdash.actions.statistics import decision_rollups, metrics_store, rollups
from wfdash.queries.statistics.decision_days import next_day_to_make

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
"""How far figures are behind."""
BREATH = 0.02
"""Seconds between two portions, so that workers get the database in between."""
TIDY_SECONDS = 3600.0
ROLLUP_SECONDS = 300.0
"""How soon roll-ups are made again after code that is older has counted."""


class Counting:
    """Follows the events of all runs."""

    def __init__(self) -> None:
        self._mark = HighWaterMark()

    def count(self) -> float:
        """Count a portion; returns the seconds until it is to be called again."""
        return BREATH if metrics_store.count_events(self._mark) >= metrics_store.BATCH else math.inf


def roll_up() -> float:
    """Make roll-ups of an hour's figures where they lack some; returns the seconds until it is to be called again."""
    began = time.perf_counter()
    return rest_after(time.perf_counter() - began) if rollups.make_next(database_now()) else math.inf


def roll_up_decisions() -> float:
    """Add up a day's decisions where that was not done, or what was added up does not agree with them any more; returns
    the seconds until it is to be called again.
    """
    began = time.perf_counter()
    day = next_day_to_make(database_now())
    if day is None:
        return math.inf
    decision_rollups.keep_day(
        day.since, day.until, day.data, count=day.count, reversed_by_now=day.reversed, groups=day.groups
    )
    return rest_after(time.perf_counter() - began)


def tidy() -> float:
    """Keep the figures small; returns the seconds until it is to be called again."""
    if saved := metrics_store.tidy(database_now()) + decision_rollups.forget(database_now()):
        log.info("Put together or removed %d old figures", saved)
    return math.inf

"""Deadlines of requests: answers take effect, deadlines pass, openings are announced, each at its moment.

Any number of workers may run it: each row is done by one of them, once.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from datetime import datetime

from checkpoints.database.clock import database_now
from wfdash.actions.audit import entries
from wfdash.actions.requests import announce, deadlines, decidability, finalize
from wfdash.actions.runs import bulk, cancellation, search_index, signals
from wfdash.actions.schedules.announce import announce_late

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
"""So often there is a sweep, and sooner when something is known to come up sooner."""
KINDS = ("answers", "alarms", "unannounced", "ending", "receivable", "unlisted", "failures", "bulks")
"""What it deals with, as ``due_work`` names that."""
TIDY_SECONDS = 60.0
BATCH = 100
"""What one sweep does of each kind; with more to do the next one follows at once."""


def sweep() -> float:
    """Do what is due now; returns the seconds until there is more to do, or to look for."""
    began = database_now()
    counts = [
        _count(work)
        for work in (
            finalize.finalize_due,
            deadlines.fire_alarms,
            announce.announce_opened,
            cancellation.end_abandoned,
            signals.match_waiting,
            search_index.index_runs,
            search_index.index_failures,
            bulk.finish_bulks,
        )
    ]
    if max(counts) >= BATCH:
        return 0.0
    # After ``began``: what was due then and is not done could not be done, but what has become due since can.
    return _pause((finalize.next_finalization(began), deadlines.next_alarm(began)), database_now())


def tidy() -> float:
    """Remove rows that are not needed any more; check undecidable requests again, and schedules that are late. Returns
    the seconds until it is to be called again.
    """
    _count(entries.log_head)
    _count(decidability.recheck_stuck)
    _count(announce_late)
    cancellation.forget_claims()
    return math.inf


def _count(work: Callable[[int], int]) -> int:
    """One kind of work that fails does not keep the others from being done."""
    try:
        return work(BATCH)
    except Exception:
        log.exception("Could not process what is due (%s); retrying", work.__name__)
        return 0


def _pause(moments: Iterable[datetime | None], now: datetime) -> float:
    """Return the seconds to the nearest moment, at most ``SWEEP_SECONDS``."""
    ahead = [(at - now).total_seconds() for at in moments if at is not None]
    return max(0.0, min([SWEEP_SECONDS, *ahead]))

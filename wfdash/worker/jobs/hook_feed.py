"""Writes what happened to runs to the outbox of webhooks, beside the runs."""

from __future__ import annotations

import math

from checkpoints.database.high_water_mark import HighWaterMark
from wfdash.actions.hooks import feed


class HookFeed:
    """Follows the events of all runs."""

    def __init__(self) -> None:
        self._mark = HighWaterMark()

    def feed(self) -> float:
        """Write what webhooks are sent of a batch of events; returns the seconds until it is to be called again."""
        return 0.0 if feed.feed_webhooks(self._mark) >= feed.BATCH else math.inf

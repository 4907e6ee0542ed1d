"""Removes runs that ended long ago, beside the runs."""

from __future__ import annotations

import math

from wfdash.actions.pacing import rest_after
from wfdash.actions.retention.runs import RunRemover

LOOK_SECONDS = 60.0
"""How often old runs are looked for once there were none."""


class RunRemoval:
    """Removes runs that ``WFDASH_KEEP_RUNS`` no longer keeps, a batch per call."""

    def __init__(self) -> None:
        self._remover = RunRemover()

    def remove_next(self) -> float:
        """Remove a batch; returns the seconds until the next one, without end once nothing is left."""
        batch = self._remover.remove_next()
        return math.inf if batch.last else rest_after(batch.seconds)

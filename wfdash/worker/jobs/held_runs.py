"""Releases held runs whose code is here: another worker, with other code, may hold a run at any time."""

from __future__ import annotations

import logging
import math

from wfdash.actions.runs import migrate

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0


class HeldRuns:
    """Looks again and again; at first also at runs that hooks may migrate, for this code is new here."""

    def __init__(self) -> None:
        self._after: str | None = ""

    def release(self) -> float:
        """Release those of one batch; returns the seconds until it is to be called again."""
        released = migrate.release_held()
        if self._after is not None:
            migrated, further = migrate.release_declared(self._after)
            released, self._after = released + migrated, further or None
        if released:
            log.info("Compatible code available, resuming runs: %s", ", ".join(released))
        return 0.0 if self._after else math.inf

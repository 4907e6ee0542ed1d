"""Removes rows that are over, each kind in small transactions: sessions, links, keys, notifications and the like.

They belong to no run, or may go long before theirs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from wfdash.actions import idempotency
from wfdash.actions.hooks.receive import forget_deliveries
from wfdash.actions.requests.answer_links import forget_used_links
from wfdash.actions.runs.bulk import forget_bulks
from wfdash.consulting.reply import forget_unread
from wfdash.signin.links import forget_links
from wfdash.signin.open_sessions import forget_sessions
from wfdash.worker.jobs import outbox

log = logging.getLogger(__name__)

TIDY_SECONDS = 600.0
BATCH = 500
"""Rows removed in one transaction."""
REST = 0.05
"""Seconds between two full batches, for others to write."""
KINDS: Mapping[str, Callable[[int], int]] = {
    "old notifications": outbox.forget_old,
    "old deliveries of incoming webhooks": forget_deliveries,
    "idempotency keys": idempotency.forget_keys,
    "expired sessions": forget_sessions,
    "expired sign-in links": forget_links,
    "used answer links": forget_used_links,
    "old bulk actions": forget_bulks,
    "questions to workers that no server waits for": forget_unread,
}
"""What is removed: at most so many, the oldest first; returns how many."""


class Leftovers:
    """Goes through all kinds, a batch per call."""

    def __init__(self) -> None:
        self._kinds: list[str] = []
        self._removed = 0

    def remove_next(self) -> float:
        """Remove a batch; returns the seconds until the next one, without end once nothing is left."""
        self._kinds = self._kinds or list(KINDS)
        if self._remove_some(self._kinds[0]):
            return REST
        self._kinds.pop(0)
        return 0.0 if self._kinds else math.inf

    def _remove_some(self, kind: str) -> bool:
        """Return whether there may be more of this kind. One that fails does not keep the others from being done."""
        try:
            count = KINDS[kind](BATCH)
        except Exception:
            log.exception("Could not remove %s; retrying in %d minutes", kind, TIDY_SECONDS // 60)
            return False
        self._removed += count
        if count >= BATCH:
            return True
        if self._removed:
            log.info("Removed %d %s", self._removed, kind)
        self._removed = 0
        return False

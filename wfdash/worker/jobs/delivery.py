"""Delivery of notifications: sends each receiver what is due in the outbox, several at once, beside the runs."""

from __future__ import annotations

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from django.db import connections

from wfdash.worker.jobs import outbox
from wfdash.worker.jobs.outbox import Bundle

log = logging.getLogger(__name__)

SENDERS = 4
"""Receivers served at the same time: one that does not answer must not keep the others waiting."""


class Senders:
    """Sends from threads of its own."""

    def __init__(self) -> None:
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="wfdash-sender")
        self._busy: set[Bundle] = set()

    def dispatch(self) -> float:
        """Give each receiver for whom something is due to a sender, one at a time each; returns the seconds until it is
        to be called again.
        """
        for bundle in outbox.due_bundles():
            if bundle not in self._busy:
                self._busy.add(bundle)
                self._senders.submit(deliver_bundle, bundle).add_done_callback(partial(self._ended, bundle))
        return math.inf

    def close(self) -> None:
        """Begin no further delivery. One in progress is completed; the rest is left to the next sender."""
        self._senders.shutdown(wait=False, cancel_futures=True)

    def _ended(self, bundle: Bundle, _: object) -> None:
        self._busy.discard(bundle)


def deliver_bundle(bundle: Bundle) -> None:
    """Deliver to one receiver, and leave no connection in this thread."""
    try:
        outbox.deliver(bundle)
    except Exception:
        log.exception("Could not deliver; what was claimed comes up again")
    finally:
        connections.close_all()

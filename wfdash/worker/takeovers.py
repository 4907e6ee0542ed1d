"""When a worker may take over runs whose claims have expired: not right after it was away itself, or has begun.

Claims expire because their worker is gone, or because no worker could reach the database, or because the whole machine
was paused. One that was away as well cannot tell which: it gives the others time to renew what is theirs. Where there
was no claim at its last look it may have been away for longer: none that began since can have expired.
"""

from __future__ import annotations

from collections.abc import Callable


class Takeovers:
    """Whether takeovers are ``allowed``, by the times at which this worker looked for runs (seconds, ``boottime``)."""

    def __init__(self, *, grace: float, absence: float) -> None:
        """``absence``: seconds without a look after which takeovers are put off, for ``grace`` seconds: so long a claim
        lasts.
        """
        self.allowed = False
        """Not before the first look: a hint may come sooner."""
        self._grace = grace
        self._absence = absence
        self._last: float | None = None
        self._was_idle = False
        self._off_until: float | None = None

    def begun(self, now: float, *, among_others: Callable[[], bool] = lambda: False) -> None:
        """Note that a look has begun, and the database has answered. ``among_others()``, asked at the first: whether
        there are workers that may live, whose claims may have expired in an outage right before.

        After the grace one look is allowed whatever happened in the meantime: on a machine so slow that each look is an
        absence, too, the runs of workers that are gone are taken over in the end.
        """
        if self._off_until is not None:
            self.allowed = now >= self._off_until
            if self.allowed:
                self._off_until = None
        elif among_others() if self._last is None else self._was_away(now, self._last):
            self.allowed, self._off_until = False, now + self._grace
        else:
            self.allowed = True

    def ended(self, now: float, *, idle: bool = False) -> None:
        """Note that a look has ended well; however long it took, the worker was not away.

        ``idle``: it found nothing to do, and no claim of any worker.
        """
        self._last, self._was_idle = now, idle

    def _was_away(self, now: float, last: float) -> bool:
        return now - last > (self._grace if self._was_idle else self._absence)

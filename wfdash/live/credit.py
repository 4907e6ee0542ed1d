"""Flow control: how much may be in flight to one socket. Pure: no clock, no loop.

The server underneath may buffer without bound (daphne does), so what was sent and not acknowledged is counted here, and
a viewer that stops acknowledging gets nothing more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from wfdash.live.limits import Limits


class Credit:
    """The unacknowledged messages of one viewer, each ``(its first seq, sizes)``, and the time of the last
    acknowledgement.
    """

    def __init__(self, limits: Limits, *, now: float) -> None:
        self._limits = limits
        # By message, its sizes shared with the others who got it: a tuple per event and viewer would burden the garbage
        # collector, and thereby every thread.
        self._owed: deque[tuple[int, Sequence[int]]] = deque()
        self._events = 0
        self._bytes = 0
        self._text = 0
        self._since = now

    def fit(self, sizes: Sequence[int]) -> int:
        """Return how many of the next events may go in one message now; at least one while nothing is
        unacknowledged.
        """
        room = min(len(sizes), self._limits.batch_events, self._limits.unacked_events - self._events)
        space = min(self._limits.batch_bytes, self._limits.unacked_bytes - self._bytes)
        count = 0
        while count < room and (space := space - sizes[count]) >= 0:
            count += 1
        return count or (0 if self._owed else min(1, len(sizes)))

    def full(self) -> bool:
        """Return whether nothing more may be sent before an acknowledgement."""
        return self._events >= self._limits.unacked_events or self._bytes >= self._limits.unacked_bytes

    def send(self, first: int, sizes: Sequence[int], *, now: float) -> None:
        """Count the events of a message as sent: its first seq, and the size of each."""
        if not self._owed:
            self._since = now
        if sizes:
            self._owed.append((first, sizes))
            self._events += len(sizes)
            self._bytes += sum(sizes)

    def ack(self, seq: int, *, now: float) -> None:
        """Count everything up to ``seq`` as received. Old and repeated acknowledgements have no effect."""
        self._text = 0
        while self._owed and self._owed[0][0] <= seq:
            first, sizes = self._owed.popleft()
            paid = sizes[: seq - first + 1]
            if len(paid) < len(sizes):
                self._owed.appendleft((seq + 1, sizes[len(paid) :]))
            self._events -= len(paid)
            self._bytes -= sum(paid)
            self._since = now

    def overdue(self, *, now: float) -> bool:
        """Return whether an acknowledgement has been due for too long."""
        return bool(self._owed) and now - self._since > self._limits.ack_timeout

    def take_text(self, size: int) -> bool:
        """Return whether this much streamed text may be sent too, and count it if so. Text is dropped, never queued."""
        if self._text + size > self._limits.unheard_text or self.full():
            return False
        self._text += size
        return True

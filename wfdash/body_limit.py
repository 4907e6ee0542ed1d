"""Requests that are bounded while they arrive: daphne keeps a whole body before any code of ours is asked."""

from __future__ import annotations

from typing import Any

from daphne import http_protocol

SECONDS = 120.0
"""The longest that a body may take to arrive: the largest at 100 kB a second."""
WASTE = 4
"""A client that goes on sending is disconnected after this many times what a body may have."""

_REQUEST: Any = http_protocol.WebRequest


def bound_requests(most: int) -> None:
    """Make daphne keep at most ``most`` bytes and one more of each body: enough to see that it is too large.

    The rest is thrown away as it comes, so that a client which sends a little too much still reads its 413.
    """

    class Bounded(BoundedRequest):
        limit = most

    vars(http_protocol)["WebRequest"] = Bounded  # Its factory looks there and has no other place for it.


class BoundedRequest(_REQUEST):  # type: ignore[misc]
    """A request whose body takes bounded space and time."""

    limit = 0
    _received = 0
    _deadline: Any = None

    def gotLength(self, length: int | None) -> None:
        """Give the body its time. ``length``: as declared, None for chunks, 0 without a body."""
        super().gotLength(min(length, self.limit + 1) if length else length)
        if length is None or length > 0:
            self._deadline = self.channel.callLater(SECONDS, self._hang_up)
        if length is not None and length > WASTE * self.limit:
            self._hang_up()

    def handleContentChunk(self, data: bytes) -> None:
        """Keep what fits."""
        room = self.limit + 1 - self._received
        self._received += len(data)
        if room > 0:
            super().handleContentChunk(data[:room])
        elif self._received > WASTE * self.limit:
            self._hang_up()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Answer it: it is complete."""
        self._stop_clock()
        super().requestReceived(command, path, version)

    def connectionLost(self, reason: Any) -> None:
        """Forget it."""
        self._stop_clock()
        super().connectionLost(reason)

    def _hang_up(self) -> None:
        self._stop_clock()
        if self.channel is not None:
            self.channel.transport.abortConnection()

    def _stop_clock(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None and deadline.active():
            deadline.cancel()

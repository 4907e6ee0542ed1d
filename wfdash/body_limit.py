"""What daphne keeps of a request in memory: it buffers a whole body before any of our code is called, and whatever of a
response the client does not take.
"""

from __future__ import annotations

import asyncio
from typing import Any

from daphne import http_protocol

WASTE = 4
"""A client that keeps sending is disconnected after this many times the maximum body."""

_REQUEST: Any = http_protocol.WebRequest


def bound_requests(most: int, seconds: float) -> None:
    """Make daphne keep at most ``most`` bytes and one more of each body: enough to see that it is too large.

    The rest is dropped as it arrives, so that a client which sends a little too much still reads its 413. A body that
    takes longer than ``seconds`` to arrive ends its connection.
    """

    class Bounded(BoundedRequest):
        limit, longest = most, seconds

    vars(http_protocol)["WebRequest"] = Bounded  # daphne's factory reads it there and has no other setting for it.


class FlowControl:
    """Whether a connection takes more of its response: what Twisted calls a push producer."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    async def wait(self) -> None:
        """Return once the connection takes more, or is gone."""
        await self._open.wait()

    def pauseProducing(self) -> None:
        """Close: more is buffered than Twisted likes to."""
        self._open.clear()

    def resumeProducing(self) -> None:
        """Open: the buffer is empty."""
        self._open.set()

    def stopProducing(self) -> None:
        """Open: the connection is gone."""
        self._open.set()


class BoundedRequest(_REQUEST):  # type: ignore[misc]
    """A request whose body is limited in size and time, and whose endless response waits for the client."""

    limit = 0
    longest = 0.0
    """Seconds that a body may take to arrive."""
    _received = 0
    _deadline: Any = None
    flow: FlowControl | None = None
    """Of a response that is sent piece by piece."""

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Send a message of the application; with the first piece of several it is controlled."""
        more = message["type"] == "http.response.body" and message.get("more_body", False)
        if more and self.flow is None and not self.finished and self.channel is not None:
            self.flow = FlowControl()
            self.registerProducer(self.flow, True)
        elif not more and self.flow is not None and self.producer is self.flow:
            self.unregisterProducer()
        super().handle_reply(message)

    def gotLength(self, length: int | None) -> None:
        """Start the body's timeout. ``length``: as declared, None for chunks, 0 without a body."""
        super().gotLength(min(length, self.limit + 1) if length else length)
        if length is None or length > 0:
            self._deadline = self.channel.callLater(self.longest, self._hang_up)
        if length is not None and length > WASTE * self.limit:
            self._hang_up()

    def handleContentChunk(self, data: bytes) -> None:
        """Keep what is within the limit."""
        room = self.limit + 1 - self._received
        self._received += len(data)
        if room > 0:
            super().handleContentChunk(data[:room])
        elif self._received > WASTE * self.limit:
            self._hang_up()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Handle the request: it is complete."""
        self._stop_clock()
        # Django reads forms, in a thread. Twisted would read each in the event loop, for arguments no one asks for.
        self._parsePOSTFormSubmission = False
        super().requestReceived(command, path, version)

    def connectionLost(self, reason: Any) -> None:
        """Stop the timeout, and let no one wait for the client."""
        self._stop_clock()
        if self.flow is not None:
            self.flow.stopProducing()
        super().connectionLost(reason)

    def _hang_up(self) -> None:
        self._stop_clock()
        if self.channel is not None:
            self.channel.transport.abortConnection()

    def _stop_clock(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None and deadline.active():
            deadline.cancel()

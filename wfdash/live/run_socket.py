"""``/live/runs/<id>/?after=<seq>``: everything after a cursor, then what follows, once each and in order.

With ``format=json`` it sends records instead of rows, replays whatever the gap, and closes once the run has ended.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import parse_qs

from wfdash.access.viewer import Viewer
from wfdash.live.authorization import read_inspect
from wfdash.live.credit import Credit
from wfdash.live.feeds.feed import Feed
from wfdash.live.feeds.messages import EventBatch, EventForm, Style, TextPiece, message_of, text_message
from wfdash.live.feeds.text_queue import TextQueue
from wfdash.live.hub import Hub
from wfdash.live.socket import (
    BAD_FRAME,
    DONE,
    NO_ACK,
    NO_SUCH_RUN,
    RIGHT_LOST,
    Receive,
    Scope,
    Send,
    Socket,
    SocketClosed,
    style_of,
)


class RunSocket(Socket):
    """One viewer of one run: a cursor, its credit, and a wake-up call."""

    _feed: Feed

    def __init__(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(hub, scope, receive, send)
        self._run: str = scope["url_route"]["kwargs"]["run_id"]
        self._cursor = 0
        self._admitted = False
        self._style = Style.HTML
        self._form = EventForm(Style.HTML, False)
        self._behind = True
        self._credit = Credit(self.limits, now=time.monotonic())
        self._texts = TextQueue()
        self._woken = asyncio.Event()

    def look(self, viewer: Viewer) -> bool | None:
        """Return whether the viewer may see the run and its values."""
        return read_inspect(viewer, self._run)

    def authorise(self, viewer: Viewer, seen: bool | None) -> None:
        """Close with 4404 on connect if they may not see the run, with 4403 once they no longer may."""
        if seen is None:
            raise SocketClosed(RIGHT_LOST if self._admitted else NO_SUCH_RUN)
        self._style = style_of(self.scope)
        self._form, self._admitted = EventForm(self._style, seen), True

    async def enter(self) -> None:
        """Join the feed; a page beyond a maximum gap gets one snapshot."""
        self._cursor = _after(self.scope["query_string"])
        self._feed, reached = await self.hub.watch_run(self._run, self, after=self._cursor)
        too_far = self._style is Style.HTML and self._cursor < reached - self.limits.snapshot_gap
        if too_far or self._cursor > reached:
            await self._snapshot(reached)
        self.hub.begin_text(self._run, self)
        self.wake()

    def leave(self) -> None:
        """Leave the feed."""
        self.hub.leave_run(self._run, self)

    def wake(self) -> None:
        """Note that there may be something to send."""
        self._woken.set()

    def show_text(self, piece: TextPiece) -> None:
        """Send text if the viewer keeps up and may see values; drop it otherwise, and say so with the next."""
        if self._form.inspect:
            self._texts.add(piece, fits=self._credit.take_text(len(piece.text)))
            self.wake()

    def acknowledge(self, seq: int) -> None:
        """Free credit."""
        if seq > self._cursor:
            raise SocketClosed(BAD_FRAME)
        self._credit.ack(seq, now=time.monotonic())
        if self._behind:
            self.wake()

    def check(self) -> None:
        """Close a viewer whose acknowledgement is overdue."""
        if self._credit.overdue(now=time.monotonic()):
            raise SocketClosed(NO_ACK)

    async def pump(self) -> None:
        """Send texts and events as they come, as far as the credit allows."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._send_texts()
            await self._send_events()
            await self._send_end()

    async def _send_texts(self) -> None:
        while piece := self._texts.take():
            await self.send(text_message(self._style, piece))

    async def _send_events(self) -> None:
        while self._feed.known > self._cursor:
            if self._credit.full():
                self._behind = True
                return
            packet = await self._feed.packet(self._cursor, self._form)
            if packet and not await self._send_packet(packet):
                self._behind = True
                return
        if self._behind:
            self._behind = False
            await self.send(message_of(self._style, "caught_up", seq=self._cursor))

    async def _send_end(self) -> None:
        """Close a program's socket once the run has ended and it has all of it."""
        end = self._feed.ended
        if self._style is Style.JSON and end and end[0] == self._cursor >= self._feed.known:
            await self.send(message_of(self._style, "end", seq=end[0], status=end[1]))
            raise SocketClosed(DONE)

    async def _send_packet(self, packet: EventBatch) -> bool:
        """Send as many events as the credit allows; False if none was sent."""
        # A step's text before the events that end it.
        self._feed.flush_text()
        await self._send_texts()
        if packet.first != self._cursor + 1:
            await self._snapshot(packet.first - 1)  # older events are no longer cached
        count = self._credit.fit(packet.sizes)
        if not count:
            return False
        self._cursor = packet.last(count)
        self._credit.send(packet.first, packet.sizes[:count], now=time.monotonic())
        await self.send(packet.message(count))
        return True

    async def _snapshot(self, seq: int) -> None:
        self._cursor = seq
        await self.send(message_of(self._style, "snapshot", seq=seq))


def _after(query: bytes) -> int:
    """Return the cursor of the address; 0 without one."""
    values = parse_qs(query.decode("latin1")).get("after", ["0"])
    if len(values) != 1 or not (values[0].isascii() and values[0].isdigit()) or len(values[0]) > 15:
        raise SocketClosed(BAD_FRAME)
    return int(values[0])

"""``/live/runs/<id>/?after=<seq>``: everything after a cursor, then whatever follows, once each and in order."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from urllib.parse import parse_qs

from wfdash.access import Viewer
from wfdash.live.credit import Credit
from wfdash.live.feed import Feed
from wfdash.live.hub import Hub
from wfdash.live.people import read_inspect
from wfdash.live.socket import BAD_FRAME, NO_ACK, NO_SUCH_RUN, RIGHT_LOST, Closed, Receive, Scope, Send, Socket
from wfdash.live.window import Line


class RunSocket(Socket):
    """One viewer of one run: a cursor, its credit, and a wake-up call."""

    _feed: Feed

    def __init__(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(hub, scope, receive, send)
        self._run: str = scope["url_route"]["kwargs"]["run_id"]
        self._cursor = 0
        self._admitted = False
        self._inspect = False
        self._behind = True
        self._credit = Credit(self.limits, now=time.monotonic())
        self._texts: deque[str] = deque()
        self._woken = asyncio.Event()

    async def authorise(self, viewer: Viewer) -> None:
        """Find the run through the viewer: 4404 on connect for what they may not see, 4403 once they no longer may."""
        inspect = await self.hub.reader.call(read_inspect, viewer, self._run)
        if inspect is None:
            raise Closed(RIGHT_LOST if self._admitted else NO_SUCH_RUN)
        self._inspect, self._admitted = inspect, True

    async def enter(self) -> None:
        """Join the feed; a gap too large becomes one snapshot."""
        self._cursor = _after(self.scope["query_string"])
        self._feed, reached = await self.hub.watch_run(self._run, self)
        if not reached - self.limits.snapshot_gap <= self._cursor <= reached:
            await self._snapshot(reached)
        self.wake()

    def leave(self) -> None:
        """Leave the feed."""
        self.hub.leave_run(self._run, self)

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    def show_text(self, message: str) -> None:
        """Pass text on if the viewer keeps up and may see values; drop it otherwise."""
        if self._inspect and self._credit.take_text(len(message)):
            self._texts.append(message)
            self.wake()

    def acknowledge(self, seq: int) -> None:
        """Free credit."""
        if seq > self._cursor:
            raise Closed(BAD_FRAME)
        self._credit.ack(seq, now=time.monotonic())
        if self._behind:
            self.wake()

    def check(self) -> None:
        """Close a viewer that has owed an acknowledgement for too long."""
        if self._credit.overdue(now=time.monotonic()):
            raise Closed(NO_ACK)

    async def pump(self) -> None:
        """Send texts and events as they come, as far as the credit goes."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._texts:
                await self.send(self._texts.popleft())
            await self._send_events()

    async def _send_events(self) -> None:
        while self._feed.known > self._cursor:
            if self._credit.full():
                self._behind = True
                return
            inspect = self._inspect
            lines = await self._feed.lines(self._cursor, inspect=inspect)
            if lines and not await self._send_lines(lines, inspect):
                self._behind = True
                return
        if self._behind:
            self._behind = False
            await self.send(json.dumps({"type": "caught_up", "seq": self._cursor}))

    async def _send_lines(self, lines: Sequence[Line], inspect: bool) -> bool:
        """Send as many as the credit allows; False if none went."""
        if lines[0].seq != self._cursor + 1:
            await self._snapshot(lines[0].seq - 1)  # older events are not kept any more
        texts = [line.texts[inspect] for line in lines[: self.limits.batch_events]]
        count = self._credit.fit([len(text) for text in texts])
        if not count:
            return False
        texts, seqs = texts[:count], [line.seq for line in lines[:count]]
        self._credit.send(seqs, [len(text) for text in texts], now=time.monotonic())
        self._cursor = seqs[-1]
        await self.send(f'{{"type":"events","events":[{",".join(texts)}],"last":{self._cursor}}}')
        return True

    async def _snapshot(self, seq: int) -> None:
        self._cursor = seq
        await self.send(json.dumps({"type": "snapshot", "seq": seq}))


def _after(query: bytes) -> int:
    """Return the cursor from the address; absent it is 0."""
    values = parse_qs(query.decode("latin1")).get("after", ["0"])
    if len(values) != 1 or not (values[0].isascii() and values[0].isdigit()) or len(values[0]) > 15:
        raise Closed(BAD_FRAME)
    return int(values[0])

"""Many viewers of one run in a process of their own: each keeps its cursor and acknowledges as the page does.

``python -m tests.live.viewers``, driven by JSON lines. First in: ``{"port", "run", "cookies", "count"}``. Then
``{"do": "storm"}`` (all hang up at once and come back), ``{"do": "trickle", "share": 0.02}`` (so many of them hang up
each second, by chance) and ``{"do": "report", "last": n}``. Each is answered by one JSON line; the report waits until
everyone has event ``n``.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

EVENT = re.compile(rb'\{"seq": (\d+), "kind": "[^"]*", "step": (?:null|"[^"]*"), "at": "([^"]+)"')
ACK_EVERY, ACK_SOON, ACK_MANY = 1.0, 0.1, 100
LONGEST_WAIT = 10.0
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
PATIENCE = 60.0

Found = tuple[tuple[int, float], ...]
"""``(seq, the event's own time)`` of each event of a message."""


@dataclass
class Tally:
    """What all viewers of this process saw."""

    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    snapshots: int = 0
    messages: int = 0
    bytes: int = 0
    connects: int = 0
    refused: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    late: Counter[int] = field(default_factory=Counter)
    """Milliseconds from an event's own time to its arrival -> how often, of viewers that had caught up before."""
    back: list[float] = field(default_factory=list)
    """Milliseconds from hanging up, or from the first dial, to being caught up."""


class Viewer(asyncio.Protocol):
    """One viewer. Counts every event that is not the next one."""

    def __init__(self, crowd: Crowd, cookie: str) -> None:
        self.last = 0
        self._crowd, self._cookie = crowd, cookie
        self._missing: set[int] = set()
        self._failures = 0
        self._acked, self._acked_at = 0, 0.0
        self._ack_timer: asyncio.TimerHandle | None = None
        self._left_at = time.time()
        self._live_since = float("inf")
        self.hung_up = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._buffer = bytearray()
        self._upgraded = False
        self._live_since = float("inf")
        transport.write(self._crowd.handshake(self._cookie, self.last))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded:
            head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not found:
                return
            if b" 101 " not in head.partition(b"\r\n")[0]:
                self._crowd.tally.codes[head[:12].decode()] += 1
                self._transport.abort()
                return
            self._upgraded, self._buffer = True, bytearray(rest)
        while frame := cut_frame(self._buffer):
            self._take(*frame)

    def connection_lost(self, error: Exception | None) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if not self.hung_up:
            self._left_at = time.time()
        wait = 0.0 if self.hung_up else min(LONGEST_WAIT, 0.3 * 2**self._failures) * (0.5 + random.random())
        self._failures += not self.hung_up
        self.hung_up = False
        self._crowd.start(self.dial(wait))

    async def dial(self, wait: float = 0.0) -> None:
        """Connect, as often as it takes."""
        while not self._crowd.over:
            await asyncio.sleep(wait)
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self._crowd.port)
            except OSError:
                self._crowd.tally.refused += 1
                wait = min(LONGEST_WAIT, 0.3 * 2**self._failures) * (0.5 + random.random())
                self._failures += 1
            else:
                self._crowd.tally.connects += 1
                return

    def hang_up(self) -> None:
        """Leave without a word and come back at once."""
        self.hung_up, self._left_at = True, time.time()
        self._transport.abort()

    @property
    def live(self) -> bool:
        """Whether it is connected and has caught up."""
        return self._live_since <= time.time() and not self._transport.is_closing()

    def _take(self, opcode: int, payload: bytes) -> None:
        tally = self._crowd.tally
        if opcode == TEXT:
            tally.messages += 1
            tally.bytes += len(payload)
            self._failures = 0
            self._read(payload)
        elif opcode == PING:
            self._send(PONG, payload)
        elif opcode == CLOSE:
            tally.codes[str(int.from_bytes(payload[:2], "big"))] += 1
            self._transport.abort()

    def _read(self, payload: bytes) -> None:
        if payload.startswith(b'{"type":"events"'):
            now = time.time()
            for seq, at in self._crowd.parse(payload):
                self._count(seq)
                if at >= self._live_since:
                    self._crowd.tally.late[int((now - at) * 1000)] += 1
            self._ack_soon()
            return
        message = json.loads(payload)
        if message["type"] == "caught_up" and self._live_since == float("inf"):
            self._live_since = time.time()
            self._crowd.tally.back.append((self._live_since - self._left_at) * 1000)
        elif message["type"] == "snapshot":
            self._crowd.tally.snapshots += 1
            self.last = message["seq"]

    def _count(self, seq: int) -> None:
        tally = self._crowd.tally
        if seq == self.last + 1:
            self.last = seq
        elif seq > self.last:
            self._missing.update(range(self.last + 1, seq))
            tally.lost += seq - self.last - 1
            self.last = seq
        elif seq in self._missing:
            self._missing.discard(seq)
            tally.lost -= 1
            tally.reordered += 1
        else:
            tally.doubled += 1

    def _ack_soon(self) -> None:
        if self._ack_timer is None:
            gap = ACK_SOON if self.last - self._acked >= ACK_MANY else ACK_EVERY
            wait = max(0.0, self._acked_at + gap - time.monotonic())
            self._ack_timer = asyncio.get_running_loop().call_later(wait, self._ack)

    def _ack(self) -> None:
        self._ack_timer = None
        self._acked, self._acked_at = self.last, time.monotonic()
        self._send(TEXT, json.dumps({"ack": self.last}).encode())

    def _send(self, opcode: int, payload: bytes) -> None:
        # Masked with zeros, which changes nothing and is allowed.
        self._transport.write(bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload)


class Crowd:
    """All viewers of this process."""

    def __init__(self, *, port: int, run: str, cookies: Sequence[str], count: int) -> None:
        self.port, self.tally, self.over = port, Tally(), False
        self._run = run
        self._parsed: dict[bytes, Found] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.viewers = [Viewer(self, cookies[number % len(cookies)]) for number in range(count)]

    def start(self, work: Any) -> None:
        """Run it beside."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def handshake(self, cookie: str, after: int) -> bytes:
        """Return the request that a browser would send."""
        lines = [
            f"GET /live/runs/{self._run}/?after={after} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Origin: http://127.0.0.1:{self.port}",
            f"Cookie: {cookie}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def parse(self, payload: bytes) -> Found:
        """Return the events of a message. Viewers get the same bytes again and again: parsed once."""
        found = self._parsed.get(payload)
        if found is None:
            if len(self._parsed) > 200:
                self._parsed.clear()
            found = tuple(
                (int(seq), datetime.fromisoformat(at.decode()).timestamp()) for seq, at in EVENT.findall(payload)
            )
            self._parsed[payload] = found
        return found

    async def all_live(self) -> dict[str, Any]:
        """Wait until everyone is connected and has caught up."""
        began = time.monotonic()
        while not all(viewer.live for viewer in self.viewers) and time.monotonic() - began < PATIENCE:
            await asyncio.sleep(0.01)
        return {"live": sum(viewer.live for viewer in self.viewers), "seconds": time.monotonic() - began}

    async def storm(self) -> dict[str, Any]:
        """Everyone hangs up at once and comes back at once; returns once all have caught up."""
        for viewer in self.viewers:
            if viewer.live:
                viewer.hang_up()
        await asyncio.sleep(0)
        return await self.all_live()

    async def trickle(self, share: float) -> None:
        """Someone hangs up now and then, forever."""
        while not self.over:
            await asyncio.sleep(0.1)
            for viewer in self.viewers:
                if viewer.live and random.random() < share / 10:
                    viewer.hang_up()

    async def report(self, last: int) -> dict[str, Any]:
        """Wait until everyone has the last event; return what was counted. Who never got that far lost the rest."""
        end = time.monotonic() + PATIENCE
        while any(viewer.last < last for viewer in self.viewers) and time.monotonic() < end:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # for doubles that may still be on their way
        self.over = True
        self.tally.lost += sum(last - viewer.last for viewer in self.viewers)
        return vars(self.tally)


def cut_frame(buffer: bytearray) -> tuple[int, bytes] | None:
    """Take one frame off the buffer: opcode and payload; None if it is not whole yet."""
    if len(buffer) < 2:
        return None
    size, start = buffer[1] & 127, 2
    if size > 125:
        start = 4 if size == 126 else 10
        size = int.from_bytes(buffer[2:start], "big")
    if len(buffer) < max(start, start + size):
        return None
    frame = buffer[0] & 15, bytes(buffer[start : start + size])
    del buffer[: start + size]
    return frame


async def serve() -> None:
    """Obey until the report was asked for."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    crowd = Crowd(**json.loads(await lines.readline()))
    for viewer in crowd.viewers:
        crowd.start(viewer.dial())
    say(await crowd.all_live())
    async for line in lines:
        order = json.loads(line)
        if order["do"] == "storm":
            say(await crowd.storm())
        elif order["do"] == "live":
            say(await crowd.all_live())
        elif order["do"] == "trickle":
            crowd.start(crowd.trickle(order["share"]))
            say({})
        else:
            say(await crowd.report(order["last"]))
            return


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(serve())

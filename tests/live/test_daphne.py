"""The same promises against a real daphne, with a real client on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import statistics
import time

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from tests.live.serving import Served

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


class Cursor:
    """What a good client keeps: its last seq, and when it acknowledged last. A gap or a double fails the test."""

    def __init__(self) -> None:
        self.last, self.acknowledged = 0, 0.0

    async def take(self, client: ClientConnection) -> None:
        try:
            message = json.loads(await asyncio.wait_for(client.recv(), 0.2))
        except TimeoutError:
            await self._acknowledge(client)
            return
        if message["type"] == "events":
            seqs = [event["seq"] for event in message["events"]]
            assert seqs == list(range(self.last + 1, self.last + 1 + len(seqs)))
            self.last = seqs[-1]
            if time.monotonic() - self.acknowledged > 0.1:
                await self._acknowledge(client)

    async def _acknowledge(self, client: ClientConnection) -> None:
        self.acknowledged = time.monotonic()
        await client.send(json.dumps({"ack": self.last}))

    async def until(self, client: ClientConnection, seq: int) -> None:
        while self.last < seq:
            await self.take(client)


@pytest.mark.alone
async def test_a_committed_event_is_seen_within_milliseconds(served: Served) -> None:
    total, seen, cursor = 200, {}, Cursor()
    async with served.dial() as client:
        served.order(events=total, every=0.02)
        while cursor.last < total:
            before = cursor.last
            await cursor.take(client)
            seen |= dict.fromkeys(range(before + 1, cursor.last + 1), time.monotonic())
    delays = sorted(seen[seq] - served.committed[seq] for seq in range(1, total + 1))
    print(f"\ncommitted to seen: p50 {delays[100] * 1e3:.1f} ms, p99 {delays[197] * 1e3:.1f} ms")
    assert statistics.median(delays) < 0.02


async def test_nothing_is_lost_or_doubled_over_kills_and_hang_ups(served: Served) -> None:
    dice, cursor, total, dials, kills = random.Random(3), Cursor(), 1_000, 0, 0
    served.order(events=total, every=0.003)
    while cursor.last < total:
        with contextlib.suppress(OSError, ConnectionClosed, InvalidMessage):
            async with served.dial(cursor.last) as client:
                dials += 1
                for _ in range(dice.randint(1, 5)):
                    if cursor.last < total:
                        await cursor.take(client)
                if kills < 3 and cursor.last > total * (kills + 1) / 5:
                    kills += 1
                    await served.kill()
                    await served.start()
                    served.order(events=total - max(served.committed), every=0.003, bell=dice.random() < 0.5)
    # A kill may come between a commit and the word of it: what is ordered again is then one more than it takes.
    assert total <= cursor.last <= total + kills
    assert (kills, dials > 50) == (3, True)


async def test_a_foreign_page_and_a_stranger_are_refused(served: Served) -> None:
    port = served.port
    for origin in (
        None,
        "null",
        "http://evil.example",
        f"https://127.0.0.1:{port}",
        f"http://127.0.0.1:{port + 1}",
        "http://127.0.0.1",
        f"http://localhost:{port}",
    ):
        with pytest.raises(InvalidStatus, match="403"):
            await served.dial(origin=origin).__aenter__()
    for cookie, code in (served.facts["stranger"], 4404), ("", 4401):
        async with served.dial(cookie=cookie) as client:
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == code


async def test_a_deaf_viewer_costs_little_and_delays_no_one(served: Served) -> None:
    hearing, slow = Cursor(), Cursor()
    async with served.dial() as deaf, served.dial() as client:
        before = served.memory()
        deaf.transport.pause_reading()
        served.order(events=3_000)
        await hearing.until(client, 3_000)
        assert served.memory() - before < 20_000_000
        deaf.transport.resume_reading()
        await slow.until(deaf, 3_000)

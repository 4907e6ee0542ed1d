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


class Stream:
    """What a client of an event stream keeps: the last id. A gap or a double fails the test."""

    def __init__(self) -> None:
        self.last, self.opened, self.ended = 0, 0, False

    async def follow(self, served: Served, until: int) -> None:
        """Take events until that one, coming back as often as it takes."""
        while self.last < until:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self.take(await self.open(served), until)

    async def open(self, served: Served) -> asyncio.StreamReader:
        await asyncio.sleep(0.02)
        reader = await served.stream(f"/api/v1/runs/{served.facts['run']}/events", str(self.last or ""))
        self.opened += 1
        return reader

    async def take(self, reader: asyncio.StreamReader, until: int) -> None:
        """Take events until that one, or the end."""
        while self.last < until:
            message = (await reader.readuntil(b"\n\n")).decode()
            if message.startswith("id: "):
                seq = int(message.partition("\n")[0].removeprefix("id: "))
                assert seq == self.last + 1
                self.last = seq
            assert not message.startswith("event: problem"), message
            if message.startswith("event: end"):
                self.ended = True
                return


async def follow_socket(cursor: Cursor, served: Served, until: int) -> None:
    """Take what the socket for programs sends until that event, coming back as often as it takes."""
    while cursor.last < until:
        with contextlib.suppress(OSError, ConnectionClosed, InvalidMessage):
            async with served.dial(cursor.last, "json") as client:
                await cursor.until(client, until)


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
    program, stream = Cursor(), Stream()
    others = [
        asyncio.create_task(work) for work in (follow_socket(program, served, total), stream.follow(served, total))
    ]
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
    assert (kills, dials > 20) == (3, True)
    await asyncio.gather(*others)
    # It may have read all of them before the last kills: the other client, which hangs up, reads more slowly.
    assert stream.opened > 1
    served.order(end=True)
    async with served.dial(program.last, "json") as client:
        with pytest.raises(ConnectionClosed):
            await program.until(client, 2 * total)
    await stream.take(await stream.open(served), 2 * total)
    assert stream.ended
    assert program.last == stream.last > total


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


async def test_a_program_that_does_not_read_costs_little_and_misses_nothing(served: Served) -> None:
    stream, total = Stream(), 2_000
    reader = await served.stream(f"/api/v1/runs/{served.facts['run']}/events")
    before = served.memory()
    served.order(events=total // 50, each=50, size=20_000)
    while max(served.committed, default=0) < total:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    assert served.memory() - before < 60_000_000
    await stream.take(reader, total)

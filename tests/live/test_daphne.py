"""The same promises against a real daphne, with a real client on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[2]


class Served:
    """The server process of ``tests.live.served``; may be killed and started again on the same port and data."""

    def __init__(self, data: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.env = os.environ | {"WFDASH_DATA": str(data), "DJANGO_SETTINGS_MODULE": "tests.settings"}
        self.committed: dict[int, float] = {}

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "tests.live.served", str(self.port)]
        self.process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=self.env, stdin=pipe, stdout=pipe)
        self.facts = json.loads(await self.process.stdout.readline())
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for line in self.process.stdout:
            seq, at = line.split()
            self.committed[int(seq)] = float(at)

    def order(self, **order: Any) -> None:
        self.process.stdin.write(json.dumps(order).encode() + b"\n")

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()
        await self.reading

    def url(self, after: int) -> str:
        return f"ws://127.0.0.1:{self.port}/live/runs/{self.facts['run']}/?after={after}"

    def dial(self, after: int = 0, **more: Any) -> connect:
        more = {"origin": f"http://127.0.0.1:{self.port}", "cookie": self.facts["cookie"]} | more
        return connect(self.url(after), origin=more["origin"], additional_headers={"Cookie": more["cookie"]})


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path)
    await served.start()
    yield served
    await served.kill()


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
    dice, cursor, total, dials, kills = random.Random(3), Cursor(), 2_000, 0, 0
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
    assert (cursor.last, kills) == (total, 3)
    assert dials > 100


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


async def test_a_deaf_viewer_costs_little_and_delays_nobody(served: Served) -> None:
    def memory() -> int:
        return int(Path(f"/proc/{served.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    hearing, slow = Cursor(), Cursor()
    async with served.dial() as deaf, served.dial() as client:
        before = memory()
        deaf.transport.pause_reading()
        served.order(events=3_000)
        await hearing.until(client, 3_000)
        assert memory() - before < 20_000_000
        deaf.transport.resume_reading()
        await slow.until(deaf, 3_000)

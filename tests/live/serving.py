"""Starts, orders, kills and dials the server process of ``tests.live.served``."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from tests import nursery

ROOT = Path(__file__).resolve().parents[2]


class Served:
    """The server process of ``tests.live.served``; may be killed and started again on the same port and data.

    ``template``: a migrated SQLite file to begin with.
    """

    def __init__(self, data: Path, template: Path) -> None:
        shutil.copy(template, data / "wfdash.sqlite3")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.env = os.environ | {"WFDASH_DATA": str(data), "DJANGO_SETTINGS_MODULE": "tests.settings"}
        self.committed: dict[int, float] = {}
        self._writers: list[asyncio.StreamWriter] = []
        self._told: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    async def start(self) -> None:
        command = [sys.executable, "-m", "tests.live.served", str(self.port)]
        (theirs, ours), (told, tell) = os.pipe(), os.pipe()
        self._orders = os.fdopen(ours, "wb", buffering=0)
        with os.fdopen(theirs) as orders, os.fdopen(tell, "w") as words:
            self.process = nursery.start(command, cwd=ROOT, env=self.env, stdin=orders, stdout=words)
        reader = asyncio.StreamReader()
        listening = asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(told, "rb")
        )
        self._pipe, _ = await listening
        self.reading = asyncio.create_task(self._read(reader))
        self.facts = await self._next_facts()

    async def _next_facts(self) -> dict[str, str]:
        """Return what the process says next; fails if it ends before."""
        told = asyncio.ensure_future(self._told.get())
        await asyncio.wait([told, self.reading], return_when=asyncio.FIRST_COMPLETED)
        assert told.done(), "the server process has ended: its output says why"
        return told.result()

    async def renew(self) -> None:
        """Go on with a new run that has no events yet, whatever became of the process."""
        if self.process.poll() is not None:
            await self.start()
        while self._writers:
            self._writers.pop().close()
        self.order(renew=True)
        self.facts = await self._next_facts()
        self.committed.clear()

    async def _read(self, words: asyncio.StreamReader) -> None:
        async for line in words:
            if not line.endswith(b"\n"):
                return  # a process that was killed while it wrote
            if line.startswith(b"{"):
                self._told.put_nowait(json.loads(line))
            else:
                seq, at = line.split()
                self.committed[int(seq)] = float(at)

    def order(self, **order: Any) -> None:
        self._orders.write(json.dumps(order).encode() + b"\n")

    async def kill(self) -> None:
        self.process.kill()
        await asyncio.to_thread(self.process.wait)
        await self.reading
        self._pipe.close()
        self._orders.close()
        while self._writers:
            self._writers.pop().close()

    def memory(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def url(self, after: int, style: str) -> str:
        return f"ws://127.0.0.1:{self.port}/live/runs/{self.facts['run']}/?after={after}&format={style}"

    async def stream(self, path: str, last: str = "") -> asyncio.StreamReader:
        """Open an event stream; what is read of it begins with its first message."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1_000_000)
        # HTTP/1.0: without chunks.
        head = [
            f"GET {path} HTTP/1.0",
            "Host: 127.0.0.1",
            "Accept: text/event-stream",
            f"Cookie: {self.facts['cookie']}",
        ]
        head += [f"Last-Event-ID: {last}"] if last else []
        writer.write("\r\n".join([*head, "", ""]).encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert " 200 " in answer.partition("\r\n")[0], answer
        self._writers.append(writer)
        return reader

    def dial(self, after: int = 0, style: str = "html", **more: Any) -> connect:
        more = {"origin": f"http://127.0.0.1:{self.port}", "cookie": self.facts["cookie"]} | more
        headers = {"Cookie": more["cookie"]}
        # Without pings: who does not read for a while would miss the answers, and be hung up on by the clock.
        return connect(self.url(after, style), origin=more["origin"], additional_headers=headers, ping_interval=None)

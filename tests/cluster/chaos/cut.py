"""A way to the database that can be cut: the processes' own address for signals and hints leads through it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

PIECE = 65_536


class CuttableWay:
    """Forwards TCP connections to PostgreSQL's socket file, until ``cut``; nothing comes through before ``mend``."""

    def __init__(self, socket_file: str) -> None:
        self._file = socket_file
        self._open = True
        self._ends: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="way", daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.connections = 0
        """How many there have been."""

    def cut(self) -> None:
        """End all connections and refuse new ones."""
        self._run(self._cut())

    def mend(self) -> None:
        """Let connections through again."""
        self._open = True

    def close(self) -> None:
        self.cut()
        self._server.close()
        self._run(asyncio.sleep(0.1))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _cut(self) -> None:
        self._open = False
        for end in list(self._ends):
            end.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            if not self._open:
                return
            theirs, ours = await asyncio.open_unix_connection(self._file)
            self.connections += 1
            self._ends.add(ours)
            ways = [asyncio.ensure_future(forward(*each)) for each in ((reader, ours), (theirs, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            ours.transport.abort()
            self._ends.discard(ours)
        except OSError:
            pass  # The database is away.
        finally:
            writer.transport.abort()
            self._ends.discard(writer)


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()

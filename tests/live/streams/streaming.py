"""Clients of event streams: one that calls the ASGI application in this process, and what both check."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.live.feeds.schemas import check_stream
from tests.live.world import HOST
from wfdash.web.http import PagesHandler


class Message(dict[str, Any]):
    """One message: ``event``, ``id`` and ``data``, the latter read as JSON."""


def read_messages(text: str) -> list[Message]:
    """Return the messages of a piece of a stream that ends with a message. Comments are messages without data."""
    assert text.endswith("\n\n"), text
    found = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) if ": " in line else (line, "") for line in block.split("\n"))
        if "data" in fields:
            fields["data"] = json.loads(fields["data"])
        found.append(Message(fields))
    return found


class Streaming:
    """A client of one stream in this process. ``stuck``: it takes nothing more until that is cleared."""

    def __init__(self, handler: PagesHandler, path: str, cookie: str = "", **headers: str) -> None:
        self._handler, self._path = handler, path
        self._headers = {"host": HOST, "accept": "text/event-stream", "cookie": cookie, **headers}
        self._gone = asyncio.Event()
        self._asked = False
        self._arrived: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._pending: list[Message] = []
        self.takes = asyncio.Event()
        self.takes.set()

    async def __aenter__(self) -> Streaming:
        path, _, query = self._path.partition("?")
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "http_version": "1.1"}
        headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in self._headers.items()]
        scope |= {"headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http"}
        self.serving = asyncio.create_task(self._handler(scope, self._receive, self._send))
        start = await asyncio.wait_for(self._arrived.get(), 10)
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._gone.set()
        self.takes.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(self.serving, 10)

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self._arrived.put_nowait(message)
        await self.takes.wait()

    async def body(self) -> bytes:
        """Return a response that is no stream."""
        return (await asyncio.wait_for(self._arrived.get(), 10))["body"]

    async def take(self, timeout: float = 10) -> Message | None:
        """Return the next message, None at the end of the stream."""
        while not self._pending:
            piece = await asyncio.wait_for(self._arrived.get(), timeout)
            if not piece.get("more_body"):
                return None
            self._pending = read_messages(piece["body"].decode())
        message = self._pending.pop(0)
        check_stream(self._path, message)
        return message

    async def until(self, seq: int, *, after: int = 0) -> list[Message]:
        """Take messages until that event; events after the cursor come without gap and double."""
        taken = []
        while after < seq:
            message = await self.take()
            assert message is not None
            if "id" in message:
                assert int(message["id"]) == message["data"]["seq"] == after + 1
                after += 1
                taken.append(message)
        return taken

    async def rest(self) -> AsyncIterator[Message]:
        while (message := await self.take()) is not None:
            yield message

    def quiet(self) -> bool:
        """Return whether nothing has arrived."""
        return self._arrived.empty()

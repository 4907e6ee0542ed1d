"""The two drivers that perform scripts, blocking or asynchronous: all that the client does to the network."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

import httpx

from wfdash.client.script import (
    AskPatience,
    Effect,
    Emit,
    Exchange,
    NoResponse,
    Open,
    ReadClock,
    ReadLine,
    ReadPiece,
    Response,
    Script,
    Send,
    Sleep,
)

T = TypeVar("T")
AGENT = "wfdash-client"
LINE_END = re.compile(rb"\r\n|\n|\r")


def headers_for(token: str | None) -> dict[str, str]:
    """Return what every request says about who sends it."""
    return {"User-Agent": AGENT} | ({"Authorization": f"Bearer {token}"} if token else {})


def _request(exchange: Exchange, seconds: float) -> dict[str, Any]:
    """Return the arguments of httpx for a request."""
    query = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in exchange.query.items()
        if value not in (None, "")
    }
    given = {} if exchange.body is None else {"json": exchange.body}
    timeout = httpx.Timeout(seconds, read=seconds + exchange.timeout)
    return {"params": query or None, "headers": dict(exchange.headers), "timeout": timeout, **given}


def _reply(response: httpx.Response, body: bytes = b"") -> Response:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Response(status=response.status_code, headers=headers, body=body)


def _no_reply(error: Exception) -> NoResponse:
    return NoResponse(why=str(error) or type(error).__name__)


FAILURES = (httpx.TransportError, httpx.StreamError)
"""What is no answer. An invalid address is the caller's mistake and is raised."""


class SyncDriver:
    """Performs scripts and blocks until they end."""

    def __init__(self, http: httpx.Client, *, seconds: float, patience: float) -> None:
        self._http, self._seconds, self._patience = http, seconds, patience

    def perform(self, script: Script[T]) -> T:
        """Return what a script returns."""
        result: Any = None
        stream = _Stream()
        try:
            while True:
                result = self._effect(script.send(result), stream)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            stream.close()

    def iterate(self, script: Script[None]) -> Iterator[Any]:
        """Yield what a script emits."""
        result: Any = None
        stream = _Stream()
        try:
            while True:
                effect = script.send(result)
                result = None
                if isinstance(effect, Emit):
                    yield effect.item
                else:
                    result = self._effect(effect, stream)
        except StopIteration:
            return
        finally:
            stream.close()

    def _effect(self, effect: Effect, stream: _Stream) -> Any:
        match effect:
            case Send(exchange):
                return self._sent(exchange)
            case Open(exchange):
                return self._opened(exchange, stream)
            case ReadLine():
                return stream.line()
            case ReadPiece():
                return stream.piece()
            case Sleep(seconds):
                return time.sleep(seconds)
            case ReadClock():
                return time.monotonic()
            case AskPatience():
                return self._patience
            case Emit():
                raise TypeError("a script that emits is iterated")

    def _sent(self, exchange: Exchange) -> Response | NoResponse:
        try:
            response = self._http.request(exchange.method, exchange.path, **_request(exchange, self._seconds))
        except FAILURES as error:
            return _no_reply(error)
        return _reply(response, response.content)

    def _opened(self, exchange: Exchange, stream: _Stream) -> Response | NoResponse:
        request = self._http.build_request(exchange.method, exchange.path, **_request(exchange, self._seconds))
        try:
            return stream.open(self._http.send(request, stream=True))
        except FAILURES as error:
            return _no_reply(error)


class _Body:
    """The lines that have arrived of an open stream."""

    def __init__(self) -> None:
        self._splitter, self._lines = LineSplitter(), deque[str]()

    def take(self, piece: bytes) -> None:
        self._lines.extend(self._splitter.feed(piece))

    def next(self) -> str | None:
        return self._lines.popleft() if self._lines else None


class LineSplitter:
    """Gives the lines of a text that arrives in pieces of bytes, wherever they are cut.

    A line ends at LF, CR or CRLF alone, as in event streams: ``str.splitlines`` knows eight more ends, such as U+2028,
    which are part of what a person wrote.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the lines that a piece completes, without their ends."""
        if not piece:
            return []
        ends_with_cr, piece = piece.endswith(b"\r"), piece.removeprefix(b"\n") if self._after_cr else piece
        *lines, self._rest = LINE_END.split(self._rest + piece)
        self._after_cr = ends_with_cr
        return [line.decode("utf-8", "replace") for line in lines]


class _Stream:
    """The one open stream of a script."""

    def __init__(self) -> None:
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._body = _Body()

    def open(self, response: httpx.Response) -> Response:
        self.close()
        self._response, self._body = response, _Body()
        good = _reply(response)
        if not good.good:
            return _reply(response, response.read())
        self._pieces = response.iter_bytes()
        return good

    def line(self) -> str | NoResponse | None:
        while (line := self._body.next()) is None:
            piece = self.piece()
            if not isinstance(piece, bytes):
                return piece
            self._body.take(piece)
        return line

    def piece(self) -> bytes | NoResponse | None:
        try:
            return next(self._pieces, None)
        except FAILURES as error:
            return _no_reply(error)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()


class AsyncDriver:
    """Performs scripts in an event loop."""

    def __init__(self, http: httpx.AsyncClient, *, seconds: float, patience: float) -> None:
        self._http, self._seconds, self._patience = http, seconds, patience

    async def perform(self, script: Script[T]) -> T:
        """Return what a script returns."""
        result: Any = None
        stream = _AsyncStream()
        try:
            while True:
                try:
                    effect = script.send(result)
                except StopIteration as end:
                    value: T = end.value
                    return value
                result = await self._effect(effect, stream)
        finally:
            await stream.close()

    async def iterate(self, script: Script[None]) -> AsyncIterator[Any]:
        """Yield what a script emits."""
        result: Any = None
        stream = _AsyncStream()
        try:
            while True:
                try:
                    effect = script.send(result)
                except StopIteration:
                    return
                result = None
                if isinstance(effect, Emit):
                    yield effect.item
                else:
                    result = await self._effect(effect, stream)
        finally:
            await stream.close()

    async def _effect(self, effect: Effect, stream: _AsyncStream) -> Any:
        match effect:
            case Send(exchange):
                return await self._sent(exchange)
            case Open(exchange):
                return await self._opened(exchange, stream)
            case ReadLine():
                return await stream.line()
            case ReadPiece():
                return await stream.piece()
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case ReadClock():
                return time.monotonic()
            case AskPatience():
                return self._patience
            case Emit():
                raise TypeError("a script that emits is iterated")

    async def _sent(self, exchange: Exchange) -> Response | NoResponse:
        try:
            response = await self._http.request(exchange.method, exchange.path, **_request(exchange, self._seconds))
        except FAILURES as error:
            return _no_reply(error)
        return _reply(response, response.content)

    async def _opened(self, exchange: Exchange, stream: _AsyncStream) -> Response | NoResponse:
        request = self._http.build_request(exchange.method, exchange.path, **_request(exchange, self._seconds))
        try:
            return await stream.open(await self._http.send(request, stream=True))
        except FAILURES as error:
            return _no_reply(error)


class _AsyncStream:
    """The one open stream of a script."""

    def __init__(self) -> None:
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._body = _Body()

    async def open(self, response: httpx.Response) -> Response:
        await self.close()
        self._response, self._body = response, _Body()
        good = _reply(response)
        if not good.good:
            return _reply(response, await response.aread())
        self._pieces = response.aiter_bytes()
        return good

    async def line(self) -> str | NoResponse | None:
        while (line := self._body.next()) is None:
            piece = await self.piece()
            if not isinstance(piece, bytes):
                return piece
            self._body.take(piece)
        return line

    async def piece(self) -> bytes | NoResponse | None:
        try:
            return await anext(self._pieces, None) if self._pieces is not None else None
        except FAILURES as error:
            return _no_reply(error)

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()

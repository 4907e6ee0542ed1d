"""HTTP into Django: each request crosses once into a thread that keeps its database connection, and back.

Django's own ASGI handler changes threads several times per request (once per signal, and wherever sync middleware
meets async) and opens a thread and a connection for each. All our views are sync, so one crossing is enough. Bodies
are bounded here, before anything parses them.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any, cast

from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import FileResponse, HttpResponse, HttpResponseBadRequest, HttpResponseBase, StreamingHttpResponse
from django.urls import set_script_prefix

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

THREADS = 8
SPOOL = 256_000
"""Bytes of a body kept in memory; more goes to a temporary file."""


class ClientGone(Exception):
    """The client hung up before its request was complete."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A response: finished, or with a ``rest`` that is made while it is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes
    rest: StreamingHttpResponse | None = None


class PagesHandler(BaseHandler):
    """An ASGI application for HTTP. A request that has begun is finished even if its client hangs up."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="wfdash-pages")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        with tempfile.SpooledTemporaryFile(max_size=SPOOL) as body:
            try:
                await read_body(receive, body, limit=settings.WFDASH_MAX_BODY)
            except ClientGone:
                return
            except RequestDataTooBig:
                await send_reply(send, _too_big())
                return
            loop = asyncio.get_running_loop()
            reply = await loop.run_in_executor(self._threads, self._respond, scope, body)
        if reply.rest is None:
            await send_reply(send, reply)
        else:
            await self._stream(send, reply, reply.rest)

    async def _stream(self, send: Send, reply: Reply, rest: StreamingHttpResponse) -> None:
        """Send piece by piece, the next one made when the last one is on its way; never more than one in memory."""
        loop, pieces = asyncio.get_running_loop(), iter(cast(Iterable[bytes], rest))
        await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        try:
            while (piece := await loop.run_in_executor(self._threads, next, pieces, None)) is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await loop.run_in_executor(self._threads, rest.close)

    def _respond(self, scope: Message, body: IO[bytes]) -> Reply:
        """Run the whole request in this thread; the signals see to its database connections."""
        signals.request_started.send(sender=self.__class__, scope=scope)
        set_script_prefix(get_script_prefix(scope))
        response: HttpResponseBase
        try:
            request = ASGIRequest(scope, body)
        except UnicodeDecodeError:
            response = HttpResponseBadRequest()
        else:
            response = self.get_response(request)
        reply = _reply(response)
        if reply.rest is None:
            response.close()
        return reply


async def read_body(receive: Receive, body: IO[bytes], *, limit: int) -> None:
    """Read a request's body; ``RequestDataTooBig`` beyond the limit, in bytes."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise RequestDataTooBig
        body.write(chunk)
        more = message.get("more_body", False)
    body.seek(0)


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a response in two messages."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": reply.content})


def _reply(response: HttpResponseBase) -> Reply:
    # A file is as long as it is; what is made while it is read may have no end.
    made = isinstance(response, StreamingHttpResponse) and not isinstance(response, FileResponse)
    rest = cast(StreamingHttpResponse, response) if made else None
    content = b"" if rest is not None else b"".join(cast(Iterable[bytes], response))
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    headers += [
        (b"Set-Cookie", cookie.output(header="").strip().encode("ascii")) for cookie in response.cookies.values()
    ]
    return Reply(status=response.status_code, headers=headers, content=content, rest=rest)


def _too_big() -> Reply:
    megabytes = settings.WFDASH_MAX_BODY // 1_000_000
    return _reply(HttpResponse(f"The request is larger than {megabytes} MB", status=413, content_type="text/plain"))

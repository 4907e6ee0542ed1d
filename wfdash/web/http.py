"""The HTTP handler: each request runs in one thread that keeps its database connection.

Django's own ASGI handler changes threads several times per request (once per signal, and wherever sync middleware meets
async) and opens a thread and a connection for each. All our views are sync, so one thread is enough. Bodies are limited
here, before anything parses them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from secrets import token_hex
from typing import IO, Any, cast

from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import FileResponse, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import set_script_prefix

from checkpoints.database.direct import keep_limits, replies_within
from checkpoints.records import frozen
from wfdash.domain.errors import KINDS, REFUSALS, Busy
from wfdash.installation.stopping import stopping
from wfdash.telemetry.logs import about, mask_secrets
from wfdash.web.api.long_poll import LongPolls, Poll, poll_of
from wfdash.web.page_threads import PageThreads
from wfdash.web.pages.site import health
from wfdash.web.pages.site.error_pages import add_headers, refusal_page
from wfdash.web.problems import RETRY_AFTER, is_api, problem_response, with_retry

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

THREADS = 8
HEALTH = health.PROBE_SECONDS
"""The paths that a separate thread answers, however busy the pages are, and within how many seconds."""
ALIVE = "/livez"
"""The path that is answered at once, without a thread."""
MAX_BODY_IN_MEMORY = 256_000
"""Bytes of a body kept in memory; more goes to a temporary file."""
MAX_BODIES_AT_ONCE = 200
"""Incomplete bodies that are received at the same time."""
BODY_SECONDS = 120.0
"""The longest time a body may take to arrive: the largest at 100 kB a second."""

REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,64}")
"""What is taken over from a proxy."""

TAKE_SECONDS = 60.0
"""The longest time a client of an endless response may take for one piece, where the server waits for clients."""


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


class TooSlow(Exception):
    """The request did not arrive in time."""


class TooMany(Exception):
    """Too many requests are still arriving."""


class RereadBody(tempfile.SpooledTemporaryFile[bytes]):
    """A body that stays readable until its ``with`` block ends: a request that waits is made again with it."""

    def close(self) -> None:
        """Do nothing: Django closes a body once it has read it."""


@frozen
class PreparedResponse:
    """A response: complete, or with a ``rest`` that is generated while it is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes
    rest: StreamingHttpResponse | None = None
    poll: Poll | None = None
    """What to wait for before it is sent, if it is not final."""
    path: str = ""
    """What was asked for."""


class PagesHandler(BaseHandler):
    """The ASGI application for HTTP. A request that has started is finished even if its client disconnects."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware(is_async=False)
        self._threads = PageThreads(THREADS)
        health.use_threads(self._threads)
        self._health = ThreadPoolExecutor(1, thread_name_prefix="wfdash-health", initializer=keep_limits)
        self._arriving = Arriving(MAX_BODIES_AT_ONCE)
        self._polls: LongPolls[PreparedResponse] = LongPolls()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] == ALIVE and scope["method"] in {"GET", "HEAD"}:
            alive = HttpResponse("ok\n", content_type="text/plain", headers={"X-Frame-Options": "DENY"})
            await send_reply(send, _reply(add_headers(alive)))
            return
        with RereadBody(max_size=MAX_BODY_IN_MEMORY) as body:
            try:
                await read_body(receive, body, limit=settings.WFDASH_MAX_BODY, arriving=self._arriving)
            except ClientGone:
                return
            except (RequestDataTooBig, TooSlow, TooMany) as error:
                await send_reply(send, _refusal(error, scope))
                return
            if scope["path"] in HEALTH:
                await send_reply(send, await self._probed(scope, body))
                return
            try:
                reply = await self._answer(scope, body)
                if reply.poll is not None:
                    reply = await self._polled(reply, lambda: self._answer(scope, body), receive)
            except Busy as error:
                await send_reply(send, _refusal(error, scope))
                return
        if reply.rest is None:
            await send_reply(send, reply)
        elif reply.rest.is_async:
            await self._follow(receive, send, reply, reply.rest)
        else:
            await self._stream(send, reply, reply.rest)

    async def _answer(self, scope: Message, body: IO[bytes]) -> PreparedResponse:
        body.seek(0)
        return await self._threads.begin(scope["path"], self._respond, scope, body)

    async def _probed(self, scope: Message, body: IO[bytes]) -> PreparedResponse:
        """Return the response to a probe, 503 if the database has not answered in time; its thread continues then."""
        seconds = HEALTH[scope["path"]]

        def respond() -> PreparedResponse:
            with replies_within(seconds):
                return self._respond(scope, body)

        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._health, respond)
        except TimeoutError:
            return _reply(add_headers(health.no_answer(scope["path"], seconds)))

    async def _polled(
        self, reply: PreparedResponse, again: Callable[[], Awaitable[PreparedResponse]], receive: Receive
    ) -> PreparedResponse:
        """Return the response once it is final, or the latest one when its time is up or the client has left."""
        left = asyncio.ensure_future(cast(Coroutine[Any, Any, Message], receive()))
        try:
            return await self._polls.until_final(reply, again, left.done)
        finally:
            left.cancel()

    async def _stream(self, send: Send, reply: PreparedResponse, rest: StreamingHttpResponse) -> None:
        """Send piece by piece, the next one generated while the last one is sent; never more than one in memory."""
        pieces = iter(cast(Iterable[bytes], rest))
        await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        try:
            while (piece := await self._threads.proceed(reply.path, next, pieces, None)) is not None:
                async with asyncio.timeout(TAKE_SECONDS):  # what it reads from must not stay open forever
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await self._threads.proceed(reply.path, rest.close)

    async def _follow(self, receive: Receive, send: Send, reply: PreparedResponse, rest: StreamingHttpResponse) -> None:
        """Send what is generated on the loop until it ends, the client leaves, or takes nothing for too long.

        When the process stops the response ends as if it were complete: clients of event streams connect again.
        """
        loop = asyncio.get_running_loop()
        sending = loop.create_task(_send_pieces(send, reply, rest))
        leaving, ending = loop.create_task(_gone(receive)), loop.create_task(stopping.wait())
        try:
            await asyncio.wait([sending, leaving, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            left = leaving.done()
            leaving.cancel()
            ending.cancel()
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            if stopping.begun and not left:
                await _send_end(send)
            await self._threads.proceed(reply.path, rest.close)

    def _respond(self, scope: Message, body: IO[bytes]) -> PreparedResponse:
        """Return the response, the whole request run in this thread, whose log names it."""
        request_id = _request_id(scope)
        with about(request=request_id, path=mask_secrets(scope["path"])):
            reply = self._respond_here(scope, body)
        reply.headers.append((b"X-Request-ID", request_id.encode("ascii")))
        return reply

    def _respond_here(self, scope: Message, body: IO[bytes]) -> PreparedResponse:
        """Return the response; the signals manage the database connections of this thread."""
        signals.request_started.send(sender=self.__class__, scope=scope)
        set_script_prefix(get_script_prefix(scope))
        response: HttpResponseBase
        poll: Poll | None = None
        try:
            request = ASGIRequest(scope, body)
        except UnicodeDecodeError:
            accepts = _header(scope, b"accept")
            response = add_headers(refusal_page(REFUSALS[400], "The address is not valid text", accepts))
        else:
            response = self.get_response(request)
            poll = poll_of(request)
        reply = replace(_reply(response), poll=poll, path=scope["path"])
        if reply.rest is None:
            response.close()
        return reply


class Arriving:
    """How many bodies are being received now, apart from those complete in their first part."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0

    def __enter__(self) -> None:
        if self._count >= self._most:
            raise TooMany
        self._count += 1

    def __exit__(self, *exc: object) -> None:
        self._count -= 1


async def read_body(
    receive: Receive, body: IO[bytes], *, limit: int, arriving: Arriving, seconds: float = BODY_SECONDS
) -> None:
    """Read a request's body. ``RequestDataTooBig`` beyond the limit, in bytes; ``TooSlow``, ``TooMany``."""
    try:
        async with asyncio.timeout(seconds):
            size = await _read_part(receive, body, 0, limit)
            if size is not None:
                with arriving:
                    while size is not None:
                        size = await _read_part(receive, body, size, limit)
    except TimeoutError:
        raise TooSlow from None
    body.seek(0)


async def _read_part(receive: Receive, body: IO[bytes], size: int, limit: int) -> int | None:
    """Read one part and return how many bytes there are now, None if that was all."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    chunk = message.get("body", b"")
    size += len(chunk)
    if size > limit:
        raise RequestDataTooBig
    body.write(chunk)
    return size if message.get("more_body", False) else None


def _request_id(scope: Message) -> str:
    """Return the id that a proxy gave the request, else a new one."""
    given = _header(scope, b"x-request-id")
    return given if REQUEST_ID.fullmatch(given) else token_hex(8)


def _header(scope: Message, wanted: bytes) -> str:
    """Return a header's first value, empty without the header."""
    return next((value for name, value in scope["headers"] if name == wanted), b"").decode("latin1")


async def _send_pieces(send: Send, reply: PreparedResponse, rest: StreamingHttpResponse) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    with contextlib.suppress(TimeoutError):
        async with contextlib.aclosing(cast(AsyncGenerator[bytes], rest.streaming_content)) as pieces:
            async for piece in pieces:
                async with asyncio.timeout(TAKE_SECONDS):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
    # Also for a client that takes nothing: the server hangs up on it once the response is over.
    await _send_end(send)


async def _send_end(send: Send) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_reply(send: Send, reply: PreparedResponse) -> None:
    """Send a response in two messages."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": reply.content})


def _reply(response: HttpResponseBase) -> PreparedResponse:
    # A file has a known length; generated content may be endless.
    made = isinstance(response, StreamingHttpResponse) and not isinstance(response, FileResponse)
    rest = cast(StreamingHttpResponse, response) if made else None
    content = b"" if rest is not None else b"".join(cast(Iterable[bytes], response))
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    headers += [
        (b"Set-Cookie", cookie.output(header="").strip().encode("ascii")) for cookie in response.cookies.values()
    ]
    return PreparedResponse(status=response.status_code, headers=headers, content=content, rest=rest)


def _refusal(error: Exception, scope: Message) -> PreparedResponse:
    """Return why a request is refused before anything reads it: a problem, a page for browsers, a line for others."""
    megabytes = settings.WFDASH_MAX_BODY // 1_000_000
    kind, words = {
        TooSlow: (REFUSALS[408], "The request timed out. Try again"),
        TooMany: (KINDS[Busy], "Too many requests. Try again in a few seconds"),
        Busy: (KINDS[Busy], "The server is busy. Nothing was changed. Try again in a few seconds"),
    }.get(type(error), (REFUSALS[413], f"The request is larger than {megabytes} MB. Nothing was saved"))
    set_script_prefix(get_script_prefix(scope))
    response: HttpResponse
    if is_api(scope["path"]):
        response = problem_response(None, kind, words, {"retry_after": RETRY_AFTER} if kind.status == 503 else {})
    else:
        response = with_retry(refusal_page(kind, words, _header(scope, b"accept")))
    return _reply(add_headers(response))

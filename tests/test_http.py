from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import include, path

from wfdash.installation.stopping import Stopping
from wfdash.web import http
from wfdash.web.api import long_poll
from wfdash.web.api.long_poll import say_later
from wfdash.web.http import THREADS, Arriving, PagesHandler, PreparedResponse, TooSlow, read_body


def echo(request: HttpRequest) -> HttpResponse:
    response = HttpResponse(request.body, content_type="text/plain")
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


closed: list[bool] = []


def pieces() -> Iterator[bytes]:
    try:
        yield b"one "
        yield b"two"
    finally:
        closed.append(True)


def stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(pieces())


def file(request: HttpRequest) -> FileResponse:
    return FileResponse(io.BytesIO(b"x" * 10_000))


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret detail")


free = threading.Event()


def slow(request: HttpRequest) -> HttpResponse:
    free.wait(10)
    return HttpResponse("slow")


read: list[bytes] = []


def later(request: HttpRequest) -> HttpResponse:
    read.append(request.body)
    if len(read) == 1:
        say_later(request, "run", 30)
    return HttpResponse(read[-1])


urlpatterns = [
    path("echo/", echo),
    path("stream/", stream),
    path("file/", file),
    path("broken/", broken),
    path("slow/", slow),
    path("later/", later),
    path("readyz", echo),
    path("people/", include("wfdash.urls")),
]
handler500 = "wfdash.web.pages.site.error_pages.server_error"

pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _settings(settings) -> None:
    settings.MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
    settings.WFDASH_MAX_BODY = 1000


async def ask(
    address: str,
    *chunks: bytes,
    hang_up: bool = False,
    method: str = "POST",
    handler: PagesHandler | None = None,
    query: bytes = b"",
    accept: bytes = b"*/*",
) -> list[dict[str, Any]]:
    """Send a request in these chunks to a (fresh) handler and return what it sent back."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "method": method,
        "path": address,
        "headers": [
            (b"host", b"localhost"),
            (b"content-length", str(sum(map(len, chunks))).encode()),
            (b"accept", accept),
        ],
        "query_string": query,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    def messages() -> Iterator[dict[str, Any]]:
        for chunk in chunks:
            yield {"type": "http.request", "body": chunk, "more_body": True}
        yield {"type": "http.disconnect"} if hang_up else {"type": "http.request", "body": b"", "more_body": False}

    coming = messages()

    async def receive() -> dict[str, Any]:
        return next(coming)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await (handler or PagesHandler())(scope, receive, send)
    return sent


async def test_a_request_is_answered_with_its_cookies() -> None:
    start, body = await ask("/echo/", b"hel", b"lo")
    assert (start["status"], body["body"]) == (200, b"hello")
    cookies = [value for name, value in start["headers"] if name == b"Set-Cookie"]
    assert [cookie.split(b";")[0] for cookie in cookies] == [b"a=1", b"b=2"]


async def test_a_request_that_waits_is_made_again_with_its_body() -> None:
    read.clear()
    start, body = await ask("/later/", b"hel", b"lo", handler=PagesHandler())
    assert (start["status"], body["body"], read) == (200, b"hello", [b"hello", b"hello"])


async def test_a_body_over_the_limit_is_refused_before_anything_reads_it() -> None:
    start, _ = await ask("/echo/", b"x" * 600, b"x" * 600)
    assert start["status"] == 413


BROWSER = b"text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "path", "kind"),
    [(BROWSER, "/echo/", b"text/html"), (b"*/*", "/echo/", b"text/plain"), (BROWSER, "/people/api/v1/x", b"json")],
)
async def test_a_browser_reads_a_page_of_what_is_refused_before_all_pages(
    accept: bytes, path: str, kind: bytes
) -> None:
    start, body = await ask(path, b"x" * 1200, accept=accept)
    assert (start["status"], kind in dict(start["headers"])[b"Content-Type"]) == (413, True)
    assert (
        (b"Go back in your browser" in body["body"]) == (b'href="/people/"' in body["body"]) == (kind == b"text/html")
    )
    start, body = await ask(path, accept=accept, query=b"q=\xff")
    assert (start["status"], b"not valid text" in body["body"]) == (400, True)


async def test_a_streamed_response_is_sent_piece_by_piece_and_closed() -> None:
    _, *pieces = await ask("/stream/")
    assert [piece["body"] for piece in pieces] == [b"one ", b"two", b""]
    assert [piece.get("more_body", False) for piece in pieces] == [True, True, False]
    assert closed.pop() is True


async def test_a_file_is_sent_at_once() -> None:
    _, body = await ask("/file/")
    assert body["body"] == b"x" * 10_000


async def test_a_client_that_hangs_up_gets_nothing_and_starts_nothing() -> None:
    assert await ask("/echo/", b"half", hang_up=True) == []


async def test_an_error_shows_nothing_of_itself() -> None:
    start, body = await ask("/broken/")
    assert start["status"] == 500
    assert b"secret detail" not in body["body"]


async def test_an_unknown_address_is_not_found() -> None:
    start, _ = await ask("/nope/")
    assert start["status"] == 404


async def test_health_is_answered_while_every_page_thread_is_busy() -> None:
    handler = PagesHandler()
    busy = [asyncio.create_task(ask("/slow/", handler=handler)) for _ in range(THREADS + 2)]
    try:
        for address, said in (("/livez", b"ok\n"), ("/readyz", b"")):
            start, body = await asyncio.wait_for(ask(address, method="GET", handler=handler), 60)
            assert (start["status"], body["body"]) == (200, said)
            if address == "/livez":
                assert b"frame-ancestors" in dict(start["headers"])[b"Content-Security-Policy"]
        assert not any(task.done() for task in busy)
    finally:
        free.set()
        await asyncio.gather(*busy)
        free.clear()


async def test_a_probe_is_answered_in_time_whatever_its_checks_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(http.HEALTH, "/slow/", 0.1)
    try:
        start, body = await asyncio.wait_for(ask("/slow/", method="GET"), 5)
        assert (start["status"], dict(start["headers"])[b"Retry-After"]) == (503, b"5")
        assert body["body"] == b"not ready\nok process: running\nFAILED database: no response within 0.1 s\n"
    finally:
        free.set()
        await asyncio.sleep(0)
        free.clear()


@pytest.mark.parametrize("address", ["/people/api/v1/runs", "/echo/"])
async def test_a_request_is_refused_at_once_while_all_threads_hang(address: str, monkeypatch: Any) -> None:
    handler = PagesHandler()
    monkeypatch.setattr(handler._threads, "hanging", THREADS)  # Or this process is not ready any more.
    start, body = await ask(address, method="GET", handler=handler)
    assert (start["status"], dict(start["headers"])[b"Retry-After"]) == (503, b"5")
    assert b"Nothing was changed" in body["body"]


async def nothing_more() -> dict[str, Any]:
    """Be a client that sends a little and then keeps its connection."""
    await asyncio.Event().wait()
    raise AssertionError


async def drip() -> dict[str, Any]:
    """Be a client that sends byte after byte forever."""
    await asyncio.sleep(0.001)
    return {"type": "http.request", "body": b"x", "more_body": True}


@pytest.mark.parametrize("receive", [nothing_more, drip])
async def test_a_body_that_does_not_arrive_in_time_is_given_up(receive: Any) -> None:
    with pytest.raises(TooSlow):
        await read_body(receive, io.BytesIO(), limit=10**9, arriving=Arriving(1), seconds=0.05)


async def test_a_slow_client_is_told_and_its_place_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_body, "__kwdefaults__", {"seconds": 0.05})
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    handler = PagesHandler()
    scope = {"type": "http", "method": "POST", "path": "/echo/", "headers": [], "query_string": b""}
    await handler(scope, drip, send)
    assert sent[0]["status"] == 408
    start, body = await ask("/echo/", b"hel", b"lo", handler=handler)
    assert (start["status"], body["body"]) == (200, b"hello")


async def test_only_so_many_bodies_arrive_at_a_time_and_requests_without_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MAX_BODIES_AT_ONCE", 1)
    handler = PagesHandler()
    waiting, parts = asyncio.Event(), iter([{"type": "http.request", "body": b"x", "more_body": True}])

    async def stall() -> dict[str, Any]:
        for part in parts:
            return part
        waiting.set()
        return await nothing_more()

    scope = {"type": "http", "method": "POST", "path": "/echo/", "headers": [], "query_string": b""}
    slow = asyncio.create_task(handler(scope, stall, lambda message: nothing_more()))
    await waiting.wait()
    start, _ = await ask("/echo/", b"hel", b"lo", handler=handler)
    assert start["status"] == 503
    assert dict(start["headers"])[b"Retry-After"] == b"5"
    assert await ask_whole(handler) == 200
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    start, _ = await ask("/echo/", b"hel", b"lo", handler=handler)
    assert start["status"] == 200


async def ask_whole(handler: PagesHandler) -> int:
    """Send a request that is complete at once; returns the status."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/file/",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await handler(scope, receive, send)
    return int(sent[0]["status"])


async def test_an_endless_response_ends_whole_when_the_process_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Stopping()
    monkeypatch.setattr(http, "stopping", ours)

    async def forever() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if message.get("body") == b"first":
            ours.begin()

    reply = PreparedResponse(status=200, headers=[], content=b"", rest=StreamingHttpResponse(forever()))
    assert reply.rest is not None
    await asyncio.wait_for(PagesHandler()._follow(nothing_more, send, reply, reply.rest), 60)
    assert sent[-1] == {"type": "http.response.body", "body": b""}


async def test_a_request_that_waits_for_a_run_is_answered_when_the_process_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = Stopping()
    monkeypatch.setattr(long_poll, "stopping", ours)
    read.clear()
    waiting = asyncio.create_task(ask("/later/", b"x"))
    while not read:
        await asyncio.sleep(0.01)
    ours.begin()
    start, _ = await asyncio.wait_for(waiting, 20)
    assert start["status"] == 200

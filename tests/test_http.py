from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from wfdash.http import PagesHandler


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


urlpatterns = [path("echo/", echo), path("stream/", stream), path("file/", file), path("broken/", broken)]
handler500 = "wfdash.pages.errors.server_error"

pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _settings(settings) -> None:
    settings.MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
    settings.WFDASH_MAX_BODY = 1000


async def ask(address: str, *chunks: bytes, hang_up: bool = False) -> list[dict[str, Any]]:
    """Send a request in these chunks to a fresh handler and return what it sent back."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": address,
        "headers": [(b"host", b"localhost"), (b"content-length", str(sum(map(len, chunks))).encode())],
        "query_string": b"",
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

    await PagesHandler()(scope, receive, send)
    return sent


async def test_a_request_is_answered_with_its_cookies() -> None:
    start, body = await ask("/echo/", b"hel", b"lo")
    assert (start["status"], body["body"]) == (200, b"hello")
    cookies = [value for name, value in start["headers"] if name == b"Set-Cookie"]
    assert [cookie.split(b";")[0] for cookie in cookies] == [b"a=1", b"b=2"]


async def test_a_body_over_the_limit_is_refused_before_anything_reads_it() -> None:
    start, _ = await ask("/echo/", b"x" * 600, b"x" * 600)
    assert start["status"] == 413


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

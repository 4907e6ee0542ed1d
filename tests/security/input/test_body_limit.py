"""What a client sends is bounded while it arrives: before daphne's own request has kept it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from twisted.internet.error import ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.web.http import HTTPChannel

from wfdash.cli.server import WASTE, BoundedRequest

LIMIT = 1000


class Small(BoundedRequest):
    limit = LIMIT
    longest = 120.0
    whole: bytes | None = None
    fields: Any = None

    def process(self) -> None:
        """Keep what has come, instead of asking an application."""
        type(self).whole, type(self).fields = self.content.read(), self.args


@pytest.fixture
def channel() -> Iterator[HTTPChannel]:
    """A connection whose requests may have 1,000 bytes."""
    Small.whole = None
    made = HTTPChannel()
    made.requestFactory = Small
    made.factory = SimpleNamespace(server=Mock())
    made.makeConnection(StringTransport())
    made.setTimeout(None)
    yield made
    for request in made.requests:
        request.connectionLost(ConnectionLost())


def begin(channel: Any, header: str) -> None:
    channel.dataReceived(f"POST / HTTP/1.1\r\nHost: here\r\n{header}\r\n\r\n".encode())


def was_cut(channel: Any) -> bool:
    return bool(channel.transport.disconnecting or channel.transport.disconnected)


def test_a_body_that_fits_arrives_whole(channel: HTTPChannel) -> None:
    begin(channel, f"Content-Length: {LIMIT}")
    channel.dataReceived(b"x" * LIMIT)
    assert Small.whole == b"x" * LIMIT


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b"])
def test_a_form_is_not_read_by_the_event_loop(channel: HTTPChannel, kind: str) -> None:
    begin(channel, f"Content-Type: {kind}\r\nContent-Length: 7")
    channel.dataReceived(b"a=1&b=2")  # As multipart it is broken, which Django says.
    assert (Small.whole, Small.fields) == (b"a=1&b=2", {})


def test_of_one_that_is_too_large_only_so_much_is_kept_as_shows_it(channel: HTTPChannel) -> None:
    begin(channel, f"Content-Length: {3 * LIMIT}")
    channel.dataReceived(b"x" * 3 * LIMIT)
    assert Small.whole == b"x" * (LIMIT + 1)
    assert not was_cut(channel)


def test_one_that_is_declared_far_too_large_is_not_waited_for(channel: HTTPChannel) -> None:
    begin(channel, f"Content-Length: {WASTE * LIMIT + 1}")
    assert was_cut(channel)


def test_chunks_without_an_end_are_cut_off(channel: HTTPChannel) -> None:
    begin(channel, "Transfer-Encoding: chunked")
    for _ in range(WASTE + 2):
        channel.dataReceived(b"3e8\r\n" + b"x" * LIMIT + b"\r\n")
    assert was_cut(channel)
    assert Small.whole is None


def test_one_that_takes_too_long_is_cut_off(channel: HTTPChannel) -> None:
    begin(channel, "Content-Length: 10")
    (request,) = channel.requests
    assert not was_cut(channel)
    request._deadline.func()
    assert was_cut(channel)


def test_a_request_without_a_body_has_no_clock(channel: HTTPChannel) -> None:
    channel.dataReceived(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    assert Small.whole == b""
    assert all(request._deadline is None for request in channel.requests)

"""A signed-in person without a browser: pages by httpx, sockets by websockets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.e2e.server import Server

ACK_SECONDS = 0.2


class Person:
    """Someone who has followed their one-time link. Close it when done."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self.http = httpx.Client(base_url=server.url, timeout=20)
        link = server.link_for(name)
        self.http.get(link).raise_for_status()
        signed_in = self.post(link, {})
        if signed_in.status_code != 302:
            raise AssertionError(f"{name} could not sign in: {signed_in.status_code}")

    def get(self, path: str) -> httpx.Response:
        """Get a page."""
        return self.http.get(path)

    def post(self, path: str, fields: dict[str, Any]) -> httpx.Response:
        """Post a form with the CSRF token of the last page that had a form. Redirects are not followed."""
        token = self.http.cookies.get("csrftoken", "")
        return self.http.post(path, data=fields | {"csrfmiddlewaretoken": token}, headers={"Referer": self._server.url})

    @contextmanager
    def socket(self, path: str) -> Iterator[ClientConnection]:
        """Open a socket as the browser would: same cookies, same origin."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())
        url = self._server.url.replace("http", "ws", 1) + path
        with connect(url, origin=self._server.url, additional_headers={"Cookie": cookies}, proxy=None) as socket:  # type: ignore[arg-type]
            yield socket

    def close(self) -> None:
        """Let the connections go."""
        self.http.close()


def events_from(socket: ClientConnection, *, timeout: float = 20.0) -> Iterator[dict[str, Any]]:
    """Yield the events of a run's socket one by one; acknowledge them as the page does, at most five times a second."""
    acknowledged = 0.0
    while True:
        message = json.loads(socket.recv(timeout=timeout))
        if message["type"] == "events":
            if time.monotonic() - acknowledged > ACK_SECONDS:
                acknowledged = time.monotonic()
                socket.send(json.dumps({"ack": message["last"]}))
            yield from message["events"]

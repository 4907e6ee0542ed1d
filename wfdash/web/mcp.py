"""The door for agents over HTTP: ``/mcp``. It knows no rule: each tool calls the REST API with the caller's token.

Stateless: every request stands alone, so any server process may serve it, and a restart loses nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import httpx
from django.urls import reverse

from wfdash.client.client import AsyncClient
from wfdash.client.errors import ClientError, Unauthorized
from wfdash.notifications.rendering import absolute

Scope = MutableMapping[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]
FORWARDED = ("host", "origin", "user-agent")
MISSING = 'This server has no door for agents: install "wfdash[mcp]" and start it again'
CALLER: ContextVar[AsyncClient] = ContextVar("caller")
MOST_AT_ONCE = 20
"""Calls with one token that a process answers at the same time: most of them wait for people."""
_calls: Counter[str] = Counter()


async def serve_mcp(pages: Application, scope: Scope, receive: Any, send: Any) -> None:
    """Serve one request. ``pages`` answers the calls of its tools."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    kind, _, token = headers.get("authorization", "").partition(" ")
    if scope["method"] != "POST":  # A stream that nothing is sent on would only be held open.
        await _refuse(send, 405, "The door for agents takes POST alone", (b"allow", b"POST"))
        return
    try:
        application_of = door()
        if kind.lower() != "bearer":
            raise Unauthorized("Give a token: Authorization: Bearer wfd_...", status=401)
        inside = _Inside(pages, headers, scope)
        client = AsyncClient(
            f"http://{headers.get('host', '')}{reverse('wfdash:inbox')}", token, transport=inside, patience=5
        )
        await client.me()
    except ImportError:
        await _refuse(send, 501, MISSING)
    except ClientError as error:
        status = getattr(error, "status", 401) or 503
        await _refuse(send, status, str(error), *[(b"www-authenticate", b"Bearer")] * (status == 401))
    else:
        CALLER.set(client)
        if _calls[token] >= MOST_AT_ONCE:
            words = f"{MOST_AT_ONCE} calls with this token wait already: end some of them, or wait in fewer"
            await _refuse(send, 429, words, (b"retry-after", b"5"))
            return
        _calls[token] += 1
        try:
            async with client, (app := application_of()).router.lifespan_context(app):
                await app({**scope, "path": "/", "root_path": ""}, receive, send)
        finally:
            _calls[token] -= 1
            if not _calls[token]:
                del _calls[token]


class _Inside(httpx.ASGITransport):
    """Calls the API in this process as the agent's host would: from its address, under the name that it called."""

    def __init__(self, pages: Application, headers: dict[str, str], scope: Scope) -> None:
        super().__init__(pages, client=tuple(scope.get("client") or ("127.0.0.1", 0)))
        self._headers = {n: v for n, v in headers.items() if n in FORWARDED or n.startswith("x-forwarded-")}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a call."""
        request.headers.update(self._headers)
        return await super().handle_async_request(request)


@cache
def door() -> Callable[[], Any]:
    """Return what makes the application of one request. Hosts are not looked at again: who calls has a token, and was
    asked for by a host of the settings.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    from wfdash.client.mcp import mcp_server

    server = mcp_server(CALLER.get, partial(absolute, reverse("wfdash:inbox")))
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return partial(
        server.streamable_http_app,
        streamable_http_path="/",
        json_response=True,
        stateless_http=True,
        transport_security=unchecked,
    )


async def _refuse(send: Any, status: int, detail: str, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/problem+json"), *more]
    body = json.dumps({"type": "about:blank", "status": status, "detail": detail}).encode()
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

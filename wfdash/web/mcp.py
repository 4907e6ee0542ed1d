"""The door for agents over HTTP: ``/mcp``. It knows no rule: each tool calls the REST API with the caller's token.

Stateless: every request stands alone, so any server process may serve it, and a restart loses nothing.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import httpx
from django.urls import reverse

from wfdash.access.signin.identities import provider_in_use
from wfdash.access.signin.tokens import SCOPES, bearer_in
from wfdash.client.client import AsyncClient
from wfdash.client.errors import ClientError, Unauthorized
from wfdash.notifications.rendering import absolute
from wfdash.web.api.params import AUDIENCE

Scope = MutableMapping[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]
FORWARDED = ("host", "origin", "user-agent")
MISSING = 'This server has no door for agents: install "wfdash[mcp]" and start it again'
CALLER: ContextVar[AsyncClient] = ContextVar("caller")
MOST_AT_ONCE, MOST_A_MINUTE = 20, 300
"""Calls with one token that a process answers at the same time, where most wait for people, and in one minute."""
_calls: Counter[tuple[str, str]] = Counter()
"""Those being answered, by account and the token's name."""
_recent: Counter[tuple[str, str]] = Counter()
_minute = [0]


async def serve_mcp(pages: Application, scope: Scope, receive: Any, send: Any) -> None:
    """Serve one request. ``pages`` answers the calls of its tools."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    token = bearer_in(headers.get("authorization", "")) or ""
    if scope["method"] != "POST":  # A stream that nothing is sent on would only be held open.
        await _refuse(send, 405, "The door for agents takes POST alone", (b"allow", b"POST"))
        return
    try:
        application_of = door()
        if not token:
            raise Unauthorized("Give a token: Authorization: Bearer wfd_...", status=401)
        inside = _Inside(_marked(pages), headers, scope)
        client = AsyncClient(
            f"http://{headers.get('host', '')}{reverse('wfdash:inbox')}", token, transport=inside, patience=5
        )
        me = await client.me()
    except ImportError:
        await _refuse(send, 501, MISSING)
    except ClientError as error:
        status = getattr(error, "status", 401) or 503
        await _refuse(send, status, str(error), *_challenge(status, token, getattr(error, "facts", {})))
    else:
        CALLER.set(client)
        caller = (me.name, me.token)
        if refused := _beyond(caller):
            words, seconds = refused
            await _refuse(send, 429, words, (b"retry-after", str(seconds).encode()))
            return
        _calls[caller] += 1
        try:
            async with client, (app := application_of()).router.lifespan_context(app):
                await app({**scope, "path": "/", "root_path": ""}, receive, send)
        finally:
            _calls[caller] -= 1
            if not _calls[caller]:
                del _calls[caller]


def _beyond(caller: tuple[str, str]) -> tuple[str, int] | None:
    """Count a call; return which limit it exceeds, with the remedy, and the seconds to wait. None within all."""
    minute, second = divmod(int(time.monotonic()), 60)
    if _minute != [minute]:
        _minute[:] = [minute]
        _recent.clear()
    _recent[caller] += 1
    if _recent[caller] > MOST_A_MINUTE:
        words = f"{MOST_A_MINUTE} calls in a minute with this token: continue in {60 - second} seconds"
        return f"{words}, and wait in wait_for_answer instead of asking often", 60 - second
    if _calls[caller] >= MOST_AT_ONCE:
        return f"{MOST_AT_ONCE} calls with this token wait already: end some of them, or wait in fewer", 5
    return None


def _audience() -> str:
    """Return the address that access tokens of the provider must be made for; empty where none is taken."""
    provider = provider_in_use()
    return absolute(f"{reverse('wfdash:inbox')}mcp") if provider and provider.agents else ""


def _marked(pages: Application) -> Application:
    """Return the pages that take access tokens, too."""
    audience = _audience()

    async def marked(scope: Any, receive: Any, send: Any) -> None:
        await pages({**scope, AUDIENCE: audience}, receive, send)

    return marked if audience else pages


def _challenge(status: int, token: str, facts: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """Return the header that says how to get a token that would do (RFC 6750, RFC 9728)."""
    said = []
    if status == 401 and token:
        said.append('error="invalid_token"')
    elif status == 403 and "scope" in facts:
        said += ['error="insufficient_scope"', f'scope="{facts["scope"]}"']
    elif status != 401:
        return []
    if _audience():
        metadata = absolute(f"{reverse('wfdash:inbox')}.well-known/oauth-protected-resource/mcp")
        said.append(f'resource_metadata="{metadata}"')
    return [(b"www-authenticate", f"Bearer {', '.join(said)}".strip().encode())]


async def tell_of_mcp(send: Any) -> None:
    """Say who gives access tokens for the door (RFC 9728)."""
    provider, audience = provider_in_use(), _audience()
    if provider is None or not audience:
        await _refuse(send, 404, "Access tokens of a provider are not taken here: use one made under Settings, Tokens")
        return
    says = {
        "resource": audience,
        "resource_name": "wfdash",
        "authorization_servers": [provider.issuer],
        "scopes_supported": SCOPES,
        "bearer_methods_supported": ["header"],
    }
    await _reply(send, 200, says, (b"access-control-allow-origin", b"*"))


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
    """Refuse a request with an error of JSON-RPC, whose words hosts show to their model."""
    error = {"code": -32000, "message": detail, "data": {"status": status}}
    await _reply(send, status, {"jsonrpc": "2.0", "id": None, "error": error}, *more)


async def _reply(send: Any, status: int, says: Mapping[str, Any], *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(says).encode()})

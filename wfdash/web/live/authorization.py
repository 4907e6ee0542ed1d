"""Authorization of sockets: checked on connect, on changes of rights, and every minute.

Session or token are read again each time, so signing out, expiry, a new password, a revoked token or a revoked grant
all end the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

from checkpoints.models import Run
from wfdash import pubsub
from wfdash.access.signin import second_factor, tokens
from wfdash.access.signin.attempt_limits import address_of
from wfdash.access.signin.sessions import SECOND_FACTOR, rights_read_with, user_of
from wfdash.access.viewer import Viewer, watcher_for
from wfdash.domain.errors import BadToken, TooManyTries
from wfdash.installation.stopping import waited
from wfdash.web.live.hub import Hub

# Reads a viewer's rights again while they watch: after a change that may concern them, and every minute.


def keep_going() -> None:
    """Check nothing else."""


class Guard:
    """``read`` returns the key of the person, or raises what ends the watching."""

    def __init__(self, hub: Hub, read: Callable[[], Awaitable[Hashable]]) -> None:
        self._hub, self._limits, self._read = hub, hub.limits, read
        self._person: Hashable = None
        self._look_again = asyncio.Event()

    @contextlib.contextmanager
    def listening(self, person: Hashable) -> Iterator[None]:
        """Hear of changes of this person's rights in the meantime."""
        self._person = person
        stop_listening = pubsub.rights_changed.subscribe(self._rights_moved)
        try:
            yield
        finally:
            stop_listening()

    async def watch(self, check: Callable[[], None] = keep_going) -> None:
        """Read the rights from time to time until that raises; ``check`` is called more often, and may raise too."""
        due = self._next_look()
        while True:
            await waited(self._look_again, min(self._limits.tick, self._limits.recheck_every))
            check()
            if self._look_again.is_set() or time.monotonic() >= due:
                self._look_again.clear()
                await self._read()
                due = self._next_look()

    def _rights_moved(self, who: int | None) -> None:
        """Handle a change of rights, in any thread. Changes that concern everyone are checked one viewer after the
        other.
        """
        if who in (None, self._person):
            late = 0.0 if who is not None else random.uniform(0, self._limits.spread)  # noqa: S311
            self._hub.loop.call_soon_threadsafe(self._hub.loop.call_later, late, self._look_again.set)

    def _next_look(self) -> float:
        # At a random moment, or all who came at once would be checked at once, minute by minute.
        return time.monotonic() + self._limits.recheck_every * random.uniform(0.5, 1)  # noqa: S311


def read_viewer(scope: Mapping[str, Any]) -> Viewer | None:
    """Return who opens a socket: the program with the token of its ``Authorization`` header, else the signed-in person
    of its session cookie; None if there is none (three queries).
    """
    bearer = bearer_of(scope)
    return _read_session(scope) if bearer is None else _read_token(scope, bearer)


def bearer_of(scope: Mapping[str, Any]) -> str | None:
    """Return the token of the handshake; None without one. No browser lets a page set this header."""
    return tokens.bearer_in(header(scope, b"authorization"))


def _read_token(scope: Mapping[str, Any], text: str) -> Viewer | None:
    meta = {"REMOTE_ADDR": (scope.get("client") or [""])[0], "HTTP_X_FORWARDED_FOR": header(scope, b"x-forwarded-for")}
    try:
        token = tokens.use_token(text, address=address_of(meta))
    except (BadToken, TooManyTries):
        return None
    return tokens.watcher_of(token)


def _read_session(scope: Mapping[str, Any]) -> Viewer | None:
    request = HttpRequest()
    key = parse_cookie(header(scope, b"cookie")).get(settings.SESSION_COOKIE_NAME)
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    if second_factor.is_required() and SECOND_FACTOR not in request.session:
        return None
    user = user_of(request)
    return watcher_for(user, rights_read_with(request, user)) if user.is_authenticated and user.is_active else None


def read_inspect(viewer: Viewer, run: str) -> bool | None:
    """Return whether they may see the run's values too; None if they may not see the run. Reads the database."""
    workflow = Run.objects.filter(viewer.scope("see"), id=run).values_list("workflow", flat=True).first()
    return None if workflow is None else viewer.may("inspect", workflow)


# Which pages may open a socket: only those of this server.

PORTS = {"http": 80, "https": 443}
LOOPBACK = [".localhost", "127.0.0.1", "[::1]"]

Origin = tuple[str, str, int]


def origin_allowed(scope: Mapping[str, Any]) -> bool:
    """Say whether the handshake comes from this server's own pages or a trusted origin."""
    claimed = _parse(header(scope, b"origin"))
    host = header(scope, b"host")
    if claimed is None or not _host_served(host):
        return False
    return claimed == _parse(f"{_scheme(scope)}://{host}") or any(
        _trusts(t, claimed) for t in settings.CSRF_TRUSTED_ORIGINS
    )


def header(scope: Mapping[str, Any], name: bytes) -> str:
    """Return a header that was sent exactly once, else an empty string."""
    values = [value for key, value in scope["headers"] if key.lower() == name]
    return values[0].decode("latin1") if len(values) == 1 else ""


def _scheme(scope: Mapping[str, Any]) -> str:
    proxy: tuple[str, str] | None = settings.SECURE_PROXY_SSL_HEADER
    if proxy and header(scope, proxy[0].removeprefix("HTTP_").replace("_", "-").lower().encode()) == proxy[1]:
        return "https"
    return "https" if scope.get("scheme") == "wss" else "http"


def _host_served(host: str) -> bool:
    """Return whether this server answers for the host. A foreign name that resolves to us agrees with its own
    Origin.
    """
    allowed = settings.ALLOWED_HOSTS or (LOOPBACK if settings.DEBUG else [])
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, allowed)


def _parse(text: str) -> Origin | None:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    more = parts.path or parts.query or parts.fragment or parts.username is not None
    if parts.scheme not in PORTS or not parts.hostname or more:
        return None
    return parts.scheme, parts.hostname, port or PORTS[parts.scheme]


def _trusts(trusted: str, claimed: Origin) -> bool:
    known = _parse(trusted)
    if known is None:
        return False
    scheme, host, port = known
    same_host = is_same_domain(claimed[1], host[1:]) if host.startswith("*.") else claimed[1] == host
    return same_host and (claimed[0], claimed[2]) == (scheme, port)

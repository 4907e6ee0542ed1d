"""Authorization of sockets: checked on connect, on changes of rights, and every minute.

Session or token are read again each time, so signing out, expiry, a new password, a revoked token or a revoked grant
all end the socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from django.conf import settings
from django.http import HttpRequest, parse_cookie

from checkpoints.models import Run
from wfdash.access.viewer import Viewer, watcher_for
from wfdash.errors import BadToken, TooManyTries
from wfdash.live.origin import header
from wfdash.signin import second_factor, tokens
from wfdash.signin.client_address import address_of
from wfdash.signin.sessions import rights_read_with, user_of


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
    if second_factor.is_required() and second_factor.SESSION_MARK not in request.session:
        return None
    user = user_of(request)
    return watcher_for(user, rights_read_with(request, user)) if user.is_authenticated and user.is_active else None


def read_inspect(viewer: Viewer, run: str) -> bool | None:
    """Return whether they may see the run's values too; None if they may not see the run. Reads the database."""
    workflow = Run.objects.filter(viewer.scope("see"), id=run).values_list("workflow", flat=True).first()
    return None if workflow is None else viewer.may("inspect", workflow)

"""Who is at the other end of a socket, and what they may see: asked on connect and again every minute.

The session is read anew each time, so signing out, expiry, a new password or a withdrawn grant all end the socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie

from checkpoints.models import Run
from wfdash.access import Viewer, watcher_for
from wfdash.live.origin import header


def read_viewer(scope: Mapping[str, Any]) -> Viewer | None:
    """Return the signed-in person behind the handshake's session cookie, None if there is none (three queries)."""
    request = HttpRequest()
    key = parse_cookie(header(scope, b"cookie")).get(settings.SESSION_COOKIE_NAME)
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(request)
    return watcher_for(user) if user.is_authenticated and user.is_active else None


def read_inspect(viewer: Viewer, run: str) -> bool | None:
    """Say whether they may see the run's values too; None if there is no such run for them. Reads the database."""
    workflow = Run.objects.filter(viewer.scope("see"), id=run).values_list("workflow", flat=True).first()
    return None if workflow is None else viewer.may("inspect", workflow)

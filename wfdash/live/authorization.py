"""Authorization of sockets: checked on connect, on changes of rights, and every minute.

The session is read again each time, so signing out, expiry, a new password or a revoked grant all end the socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie

from checkpoints.models import Run
from wfdash.access.viewer import Viewer, watcher_for
from wfdash.live.origin import header
from wfdash.signin import second_factor


def read_viewer(scope: Mapping[str, Any]) -> Viewer | None:
    """Return the signed-in person of the handshake's session cookie, None if there is none (three queries)."""
    request = HttpRequest()
    key = parse_cookie(header(scope, b"cookie")).get(settings.SESSION_COOKIE_NAME)
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    if second_factor.is_required() and second_factor.SESSION_MARK not in request.session:
        return None
    user = get_user(request)
    return watcher_for(user) if user.is_authenticated and user.is_active else None


def read_inspect(viewer: Viewer, run: str) -> bool | None:
    """Return whether they may see the run's values too; None if they may not see the run. Reads the database."""
    workflow = Run.objects.filter(viewer.scope("see"), id=run).values_list("workflow", flat=True).first()
    return None if workflow is None else viewer.may("inspect", workflow)

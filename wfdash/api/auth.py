"""Authentication of the API: the current user and the idempotency key."""

from __future__ import annotations

from django.http import HttpRequest

from wfdash.access.viewer import Viewer

HEADER = "Idempotency-Key"
"""The same command with the same key is done once; with another command it is a conflict (409)."""


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the viewer of a request."""
    viewer: Viewer = request.viewer  # type: ignore[attr-defined]
    return viewer


def key_of(request: HttpRequest) -> str | None:
    """Return the idempotency key from the header, None without one."""
    return request.headers.get(HEADER) or None

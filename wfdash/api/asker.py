"""Who asks, and under which key: the same for every address of the API."""

from __future__ import annotations

from django.http import HttpRequest

from wfdash.access import Viewer

HEADER = "Idempotency-Key"
"""The same command with the same key is done once; with another command it is a conflict (409)."""


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the person who asks."""
    viewer: Viewer = request.viewer  # type: ignore[attr-defined]
    return viewer


def key_of(request: HttpRequest) -> str | None:
    """Return the key that came in the header, None if there was none."""
    return request.headers.get(HEADER) or None

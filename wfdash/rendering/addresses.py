"""Absolute addresses of this installation's pages, for links that leave it: in mails, webhooks, and on a terminal."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse


def absolute(path: str, *, base: str = "") -> str:
    """Return the address of a path as ``reverse()`` gives it, at ``base`` (``WFDASH_URL``, where it is not given).

    Below a prefix the base may have that prefix or not: it is never there twice.
    """
    script = (settings.FORCE_SCRIPT_NAME or "").rstrip("/")
    mount = reverse("wfdash:inbox").rstrip("/")
    if script and not f"{mount}/".startswith(f"{script}/"):
        # Only the thread of a request knows it; jobs and commands have their links without.
        mount, path = script + mount, script + path
    base = (base or settings.WFDASH_URL).rstrip("/")
    if mount and urlsplit(base).path.endswith(mount):
        base = base.removesuffix(mount)
    return base + path

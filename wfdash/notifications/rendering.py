"""Pages and mails, drawn by an engine of wfdash's own: a project around it keeps its template names and settings.

A project replaces a template by one of the same name in a folder ``wfdash`` of its own template folders:
``templates/wfdash/base.html``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.template.backends.django import DjangoTemplates
from django.urls import reverse

from wfdash.installation.location import folder_of


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


PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
    "wfdash.web.pages.site.context_processors.site_context",
]


@cache
def engine() -> DjangoTemplates:
    """Return the engine."""
    given: list[dict[str, Any]] = settings.TEMPLATES
    own = [Path(folder) / "wfdash" for one in given for folder in one.get("DIRS", ())]
    options = {
        "context_processors": PROCESSORS,
        "builtins": ["wfdash.web.pages.site.files"],
        "libraries": {"wfdash": "wfdash.web.pages.tags"},
        "debug": settings.DEBUG,
    }
    return DjangoTemplates(
        {"NAME": "wfdash", "DIRS": [*own, folder_of("templates")], "APP_DIRS": False, "OPTIONS": options}
    )


def render(
    request: HttpRequest, name: str, context: Mapping[str, Any] | None = None, *, status: int | None = None
) -> HttpResponse:
    """Return a page as Django's shortcut does."""
    return HttpResponse(render_to_string(name, context, request), status=status)


def render_to_string(name: str, context: Mapping[str, Any] | None = None, request: HttpRequest | None = None) -> str:
    """Return a template's text."""
    return engine().get_template(name).render(dict(context or {}), request)


setting_changed.connect(lambda setting, **_: engine.cache_clear() if setting in {"TEMPLATES", "DEBUG"} else None)

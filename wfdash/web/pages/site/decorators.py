"""The decorator of every page: sign-in required, allowed methods; and secrets that the next page shows, only once.

Rules live in actions and queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.urls.converters import StringConverter
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from wfdash.access.viewer import Viewer, evaluated
from wfdash.domain.cron import known_zones
from wfdash.domain.errors import Invalid
from wfdash.notifications.write import preferences_of
from wfdash.web.pages.ui.time_html import absolute_times

# URL converters for ids. Ids are opaque: one with a slash must not break a page that only lists it.


class IdConverter(StringConverter):
    """An id as one part of a path."""

    def to_python(self, value: str) -> str:
        """Return the id."""
        return unquote(value)

    def to_url(self, value: str) -> str:
        """Return it without anything that has a meaning in a path."""
        return quote(str(value), safe="")


class VerbConverter(StringConverter):
    """An action on a run."""

    regex = "pausenow|pause|resume|handover|force|retry"


class KindConverter(StringConverter):
    """A format of an export."""

    regex = "json|csv"


class NameConverter(IdConverter):
    """The name of a person or group as one part of a path. One that is a page's own word there gets a sign before."""

    TAKEN = frozenset({"groups", "invite", "access"})
    SIGN = "="

    def to_python(self, value: str) -> str:
        """Return the name."""
        return super().to_python(value).removeprefix(self.SIGN)

    def to_url(self, value: str) -> str:
        """Return it so that it leads to the person."""
        name = str(value)
        return super().to_url(f"{self.SIGN}{name}" if name in self.TAKEN or name.startswith(self.SIGN) else name)


def number_in(text: str) -> int:
    """Return the whole number that a text is, 0 for anything else: no database has more digits than it takes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


# The time zone of pages: the browser's, from a cookie that a script sets; without one that of the person's settings.

COOKIE = "wfdash_zone"
SESSION_ZONE = "wfdash_zone"
TIMES_COOKIE = "wfdash_times"
ABSOLUTE = "absolute"


class Middleware:
    """What Django calls for each request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response


class LocalTime(Middleware):
    """Middleware: templates and ``times`` show times in the browser's zone, and as dates if it has chosen that."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response, rendered in the browser's zone."""
        absolute = request.COOKIES.get(TIMES_COOKIE) == ABSOLUTE
        with timezone.override(page_zone(request)), absolute_times(absolute):
            return self.get_response(request)


def page_zone(request: HttpRequest) -> ZoneInfo:
    """Return the browser's zone, without script that of the person's settings, else UTC."""
    name = browser_zone(request) or getattr(request, "session", {}).get(SESSION_ZONE, "UTC")
    return ZoneInfo(name if name in known_zones() else "UTC")


def browser_zone(request: HttpRequest) -> str:
    """Return the name of the zone that the browser said it is in; empty if it said none that exists."""
    name = unquote(request.COOKIES.get(COOKIE, ""))
    return name if name in known_zones() else ""


def keep_zone(request: HttpRequest, user_id: int) -> None:
    """Let the session know the zone of the person's settings, so that no page has to look it up."""
    kept = preferences_of([user_id]).get(user_id)
    request.session[SESSION_ZONE] = kept.zone if kept else "UTC"


def zone_of(viewer: Viewer) -> str:
    """Return the person's time zone: that of their settings, else their browser's."""
    kept = preferences_of([viewer.user.pk]).get(viewer.user.pk)
    return kept.zone if kept else timezone.get_current_timezone_name()


def moment_in(text: str) -> datetime | None:
    """Return the time of a parameter, ISO text with an offset; None without one."""
    try:
        # Unescaped, the offset's plus sign arrives as a space.
        found = parse_datetime(text.replace(" ", "+"))
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


LOCAL = "%Y-%m-%dT%H:%M"
"""A time as a field has it, in the person's zone."""


def typed_moment(text: str, zone: ZoneInfo, field: str) -> datetime:
    """Return the time that a field has. ``Invalid`` if it has none."""
    try:
        return datetime.strptime(text, LOCAL).replace(tzinfo=zone)
    except ValueError:
        raise Invalid.at(field, "Enter a date and time") from None


P = ParamSpec("P")
ONCE = "wfdash_once"
ONCE_SECONDS = 120
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the viewer of a request; read once per request, by ``ErrorPages``."""
    return evaluated(cast(Viewer, cast(Any, request).viewer))


def key_of(request: HttpRequest) -> str | None:
    """Return a form's idempotency key (``{% once_key %}``), None if it has none."""
    return request.POST.get("_key") or None


def show_once(request: HttpRequest, shown: Mapping[str, Any], to: str, *args: str) -> HttpResponse:
    """Redirect to a page that may read ``shown`` by ``shown_once``: a reload shows it no more, and makes nothing twice.

    It travels in a signed cookie of this browser, so that the server stores no secret for it.
    """
    response = redirect(to, *args)
    response.set_signed_cookie(
        ONCE,
        json.dumps(shown),
        salt=_salt(request, response.headers["Location"]),
        max_age=ONCE_SECONDS,
        path=reverse("wfdash:inbox"),
        secure=bool(settings.SESSION_COOKIE_SECURE),
        httponly=True,
        samesite="Lax",
    )
    return response


def shown_once(request: HttpRequest) -> dict[str, Any]:
    """Return what the request before this one left for this page and person, empty without anything."""
    salt = _salt(request, request.get_full_path())
    text = request.get_signed_cookie(ONCE, "", salt=salt, max_age=ONCE_SECONDS) if request.method == "GET" else ""
    if not text:
        return {}
    request.was_shown_once = True  # type: ignore[attr-defined]
    found: dict[str, Any] = json.loads(text)
    return found


def _salt(request: HttpRequest, to: str) -> str:
    return f"{ONCE}:{viewer_of(request).user.pk}:{to}"


def page(*methods: str) -> Callable[[View[P]], View[P]]:
    """Return a decorator for views that require sign-in and answer these methods only."""

    def wrap(view: View[P]) -> View[P]:
        allowed = require_http_methods(["HEAD", *methods] if "GET" in methods else list(methods))

        @wraps(view)
        def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(
                    request.get_full_path() if request.method == "GET" else reverse("wfdash:inbox")
                )
            response = view(request, *args, **kwargs)
            if getattr(request, "was_shown_once", False) and isinstance(response, HttpResponse):
                response.delete_cookie(ONCE, path=reverse("wfdash:inbox"), samesite="Lax")
            return response

        return cast(View[P], never_cache(allowed(guarded)))

    return wrap


get_page, post_page, form_page = page("GET"), page("POST"), page("GET", "POST")

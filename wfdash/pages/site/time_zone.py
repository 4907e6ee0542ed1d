"""The time zone of pages: the browser's, from a cookie that a script sets; UTC without one.

What depends on a person and not on a screen (deadlines they type, quiet hours, mails) uses the zone of their settings;
without one, the browser's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from wfdash.access.viewer import Viewer
from wfdash.notifications.write import preferences_of

COOKIE = "wfdash_zone"


class LocalTime:
    """Middleware: templates and ``times`` show times in the browser's zone during a request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response, rendered in the browser's zone."""
        with timezone.override(browser_zone(request)):
            return self.get_response(request)


def browser_zone(request: HttpRequest) -> ZoneInfo:
    """Return the zone that the cookie names; UTC without one, or for one that does not exist."""
    name = unquote(request.COOKIES.get(COOKIE, ""))
    return ZoneInfo(name if name in known_zones() else "UTC")


def zone_of(viewer: Viewer) -> str:
    """Return the person's time zone: that of their settings, else their browser's."""
    kept = preferences_of([viewer.user.pk]).get(viewer.user.pk)
    return kept.zone if kept else timezone.get_current_timezone_name()


@cache
def known_zones() -> frozenset[str]:
    """Return the names of all zones; cached, because listing them takes the file system some time."""
    return frozenset(available_timezones())


def moment_in(text: str) -> datetime | None:
    """Return the time of a parameter, ISO text with an offset; None without one."""
    try:
        # Unescaped, the offset's plus sign arrives as a space.
        found = parse_datetime(text.replace(" ", "+"))
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None

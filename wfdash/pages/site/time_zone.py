"""The time zone of pages: the browser's, from a cookie that a script sets; without one that of the person's settings.

What depends on a person and not on a screen (deadlines they type, quiet hours, mails) uses the zone of their settings;
without one, the browser's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from wfdash.access.viewer import Viewer
from wfdash.domain.cron import known_zones
from wfdash.notifications.write import preferences_of
from wfdash.pages.ui.time_html import absolute_times

COOKIE = "wfdash_zone"
SESSION_ZONE = "wfdash_zone"
TIMES_COOKIE = "wfdash_times"
ABSOLUTE = "absolute"


class LocalTime:
    """Middleware: templates and ``times`` show times in the browser's zone, and as dates if it has chosen that."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

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

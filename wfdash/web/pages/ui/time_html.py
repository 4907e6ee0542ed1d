"""HTML drawn in Python, ``<time>`` elements, and whether a browser has chosen dates over relative times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, tzinfo
from html import escape
from typing import Any

from django.utils import timezone
from django.utils.safestring import SafeString

from wfdash.web.pages.ui import times


def format_html(form: str, *parts: Any, **named: Any) -> SafeString:
    """Return HTML with these parts, escaped but for what is HTML: Django's own takes three times as long."""
    ready = {name: _escaped(part) for name, part in named.items()}
    return SafeString(form.format(*map(_escaped, parts), **ready))


def _escaped(part: Any) -> str:
    return part if isinstance(part, SafeString) else escape(str(part))


_absolute: ContextVar[bool] = ContextVar("wfdash_absolute_times", default=False)


@contextmanager
def absolute_times(on: bool) -> Iterator[None]:
    """Within it, relative times are drawn as dates if ``on``."""
    token = _absolute.set(on)
    try:
        yield
    finally:
        _absolute.reset(token)


def are_absolute() -> bool:
    """Return whether relative times are drawn as dates."""
    return _absolute.get()


def draw_time(at: datetime | None, *, due: bool = False, since: bool = False, clock: bool = False) -> SafeString:
    """Return a ``<time>`` whose text the browser keeps current. ``due``: it turns red once it has passed.

    ``since``: its text is a duration, without ``ago``. ``clock``: date and time instead, where the order matters.
    """
    if at is None:
        return SafeString("—")
    zone, mark = timezone.get_current_timezone(), "data-clock" if clock else "data-relative"
    marks = f"{mark}{' data-due' if due else ''}{' data-since' if since else ''}"
    words = times.clock(at, zone) if clock else _words(at, zone, since=since)
    # Not format_html: a list has a hundred of them, and no part is text of others.
    return SafeString(f'<time datetime="{at.isoformat()}" title="{times.exact(at, zone)}" {marks}>{words}</time>')


def draw_moment(at: datetime, start: datetime | None) -> SafeString:
    """Return the date and time of what happened in a run, and when that was from the run's start."""
    time = draw_time(at, clock=True)
    return time if start is None else time + format_html(' <span class="elapsed">{}</span>', times.elapsed(at - start))


def draw_recorded(at: datetime) -> SafeString:
    """Return a time in UTC, to the millisecond: a record reads the same for everyone."""
    return format_html('<time datetime="{}">{} UTC</time>', at.isoformat(), times.clock(at))


def draw_zone(*, lists: bool = False) -> SafeString:
    """Return the offset of the zone in which times are shown, for the head of a table; the browser keeps it true.

    ``lists``: it is hidden while the table shows relative times.
    """
    marks = SafeString(f" data-zone-lists{'' if are_absolute() else ' hidden'}" if lists else "")
    words = times.offset(timezone.now(), timezone.get_current_timezone())
    name = timezone.get_current_timezone_name()
    return format_html('<span class="zone" data-zone{} title="{}">{}</span>', marks, name, words)


def _words(at: datetime, zone: tzinfo, *, since: bool) -> str:
    if since:
        return times.since(at, zone=zone)
    return times.to_second(at, zone) if are_absolute() else times.relative(at, zone=zone)

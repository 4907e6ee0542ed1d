"""Fragments of pages that are rendered separately: event rows for the live feed, panels for ``?fragment=``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Any, Protocol
from zipfile import ZipFile

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from checkpoints.records import Pairs, frozen
from wfdash.domain.labels import visible
from wfdash.notifications.rendering import render
from wfdash.queries.history import created_at, plain, traceless, workflow_by_run
from wfdash.queries.unreadable import masked_data
from wfdash.web.pages.ui.event_text import describe, icon_of, tone_of
from wfdash.web.pages.ui.json_value import pretty
from wfdash.web.pages.ui.time_html import draw_moment, format_html

# Links from pages to the documentation, where the installation says at which address that is served.


def guide(page: str = "index", anchor: str = "") -> str:
    """Return the address of a page of the documentation, by the name of its file; empty without ``WFDASH_DOCS``."""
    if not settings.WFDASH_DOCS:
        return ""
    return f"{settings.WFDASH_DOCS}/{page}.html" + (f"#{anchor}" if anchor else "")


# CSV for downloads, safe to open in a spreadsheet.

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How text begins that spreadsheets run as a formula."""


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as lines of CSV."""
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def harmless(text: str) -> str:
    """Return a cell's text, no character of it invisible, quoted where a spreadsheet would run it."""
    return f"'{visible(text)}" if text.startswith(FORMULA) else visible(text)


MOST_DETAIL = 20_000


class EventLike(Protocol):
    """An event: the row or the record."""

    @property
    def seq(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def step(self) -> str | None: ...
    @property
    def data(self) -> dict[str, Any]: ...
    @property
    def at(self) -> datetime: ...


@frozen
class EventItem:
    """An event as a row shows it. ``detail`` is empty for people who may not inspect. ``level``: of a log record."""

    run: str
    seq: int
    kind: str
    step: str
    at: datetime
    words: str
    icon: str
    tone: str
    detail: dict[str, Any]
    level: str = ""
    start: datetime | None = None
    """When the run was created."""

    @property
    def address(self) -> str:
        """Return its permanent address."""
        return f"{_run_address(self.run)}events/?seq={self.seq}#e{self.seq}"

    @property
    def replay(self) -> str:
        """Return the address of the run as it was then."""
        return f"{_run_address(self.run)}at/{self.seq}/"


def event_row_of(
    event: EventLike, *, inspect: bool = False, start: datetime | None = None, workflow: str = ""
) -> EventItem:
    """Return the row of an event. Without ``inspect`` it contains no value. ``start``, ``workflow``: of its run."""
    run = str(getattr(event, "run_id", "") or getattr(event, "run", ""))
    data = masked_data(run, traceless(event.data)) if inspect else plain(event.data)
    shown = {name: value for name, value in data.items() if name != "activation"}
    return EventItem(
        run=run,
        seq=event.seq,
        kind=event.kind,
        step=event.step or "",
        at=event.at,
        words=describe(event.kind, event.step or "", data, workflow),
        icon=icon_of(event.kind),
        tone=tone_of(event.kind),
        detail=shown if inspect else {},
        level=str(data.get("level") or ""),
        start=start,
    )


def event_row(event: EventLike, *, inspect: bool = False) -> str:
    """Return the HTML of one event row, the same on first paint and in the live feed."""
    run = str(getattr(event, "run_id", "") or getattr(event, "run", ""))
    return render_event_row(event_row_of(event, inspect=inspect, start=created_at(run), workflow=workflow_by_run(run)))


@lru_cache(maxsize=500)
def _run_address(run: str) -> str:
    return reverse("wfdash:run", args=[run])


ROW = (
    '<li class="event {tone}" id="e{seq}" data-seq="{seq}" data-kind="{kind}" data-step="{step}">'
    '<span class="event-mark">{icon}</span>'
    '<div class="event-words"><details><summary>{words}</summary><div class="event-more"><p class="row small">'
    '<a href="{address}" data-copy-link="{address}"><span data-copy-words>Copy link</span></a>'
    '<a href="{replay}">View run at this point</a></p>{detail}</div></details></div>'
    '<a class="event-seq" href="{address}" aria-label="event {seq}">{seq}</a>'
    '<span class="event-at">{at}</span></li>'
)


def render_event_row(line: EventItem) -> SafeString:
    """Return the row as HTML. In Python, because two hundred templates would take most of a page's time."""
    detail = SafeString("")
    if line.detail:
        text = pretty(line.detail)
        text = text if len(text) <= MOST_DETAIL else f"{text[:MOST_DETAIL]}…"
        detail = format_html('<pre class="event-detail" tabindex="0">{}</pre>', text)
    return format_html(
        ROW,
        tone=f"{line.tone} level-{line.level.lower()}" if line.level else line.tone,
        seq=line.seq,
        kind=line.kind,
        step=line.step,
        icon=draw_icon(line.icon, 16),
        words=line.words,
        address=line.address,
        replay=line.replay,
        detail=detail,
        at=draw_moment(line.at, line.start),
    )


def respond(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    fragments: Mapping[str, str],
    *,
    status: int = 200,
) -> HttpResponse:
    """Return the page, or with ``?fragment=name`` only that part of it, from the same template and context."""
    wanted = request.GET.get("fragment", "")
    if not wanted:
        return render(request, template, dict(context), status=status)
    if wanted not in fragments:
        raise Http404("This page has no such section")
    return render(request, fragments[wanted], dict(context), status=status)


# Small elements of every row, rendered in Python: icons and risks. Icons are cached.

STYLES = {16: "micro", 20: "mini"}
SPACE = ' xmlns="http://www.w3.org/2000/svg"'
"""What an element in a page of HTML need not say."""
RISKS = {"low": "shield-check", "medium": "shield-exclamation", "high": "exclamation-triangle"}


@lru_cache(maxsize=500)
def draw_icon(name: str, size: int = 20, attributes: Pairs = ()) -> SafeString:
    """Return a heroicon, hidden from screen readers; its style follows its size (16 micro, 20 mini, 24 outline)."""
    svg = _archive().read(f"{STYLES.get(size, 'outline')}/{name}.svg").decode().rstrip()
    head, end, drawn = svg.replace(SPACE, "", 1).partition(">")
    given = format_html_join("", ' {}="{}"', [("width", size), ("height", size), *attributes])
    return SafeString(f"{head}{given}{end}{drawn}")


@cache
def _archive() -> ZipFile:
    """Return the icons, whose list is read once: heroicons reads its thousand lines again for every icon."""
    return ZipFile(BytesIO((files("heroicons") / "heroicons.zip").read_bytes()))


def draw_risk(level: str) -> SafeString:
    """Return a risk chip for low, medium or high; any other word is shown without a colour."""
    kind = level if level in RISKS else "unknown"
    drawing = draw_icon(RISKS.get(level, "question-mark-circle"), 16)
    return format_html('<span class="chip tone is-{}">{}{} risk</span>', kind, drawing, level)

"""A run's events: in order or by step, filtered, each with an address of its own, exported as JSON lines; its log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Protocol, TypeVar

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse

from checkpoints.events import EventKind
from checkpoints.records import Event, frozen
from wfdash.domain.labels import visible
from wfdash.queries.runs.listing import RunView, read_run
from wfdash.queries.runs.logs import (
    LEVELS,
    EventFilter,
    EventPage,
    LogFilter,
    LogPage,
    all_events,
    all_logs,
    find_events,
    find_logs,
)
from wfdash.queries.workflows import description_of
from wfdash.records.runs import LogLineRecord
from wfdash.web.pages.runs.header import address, head
from wfdash.web.pages.site.decorators import get_page, number_in, viewer_of
from wfdash.web.pages.ui.event_text import LogLine, step_label
from wfdash.web.pages.ui.fragments import EventItem, event_row_of, respond
from wfdash.web.pages.ui.times import elapsed

# The log of a run or of one of its steps: searched, followed while it grows, downloaded as text.

SHOWN_LINES = 300
HIDDEN = "Not shown: your role doesn't include log text"
LOG_FRAGMENTS = {"head": "runs/header/header.html", "log": "runs/logs/records.html"}


@get_page
def logs(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the newest log records, those ``before`` one, or those ``after`` one.

    ``step``, ``activation``, ``level``, ``q`` narrow them; ``wrap=off``: long lines are not broken.
    """
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    wanted = log_filter_of(request)
    before, after = number_in(request.GET.get("before", "")), following_in(request)
    found = find_logs(viewer, run_id, wanted, before=before, after=after, limit=SHOWN_LINES)
    context = head(viewer, run, "logs") | _logs_context(request, run, found, wanted)
    return respond(request, "runs/logs/page.html", context, LOG_FRAGMENTS)


def _logs_context(request: HttpRequest, run: RunView, found: LogPage, wanted: LogFilter) -> dict[str, Any]:
    steps = step_titles(run)
    wrap, events = request.GET.get("wrap", "") != "off", reverse("wfdash:run-events", args=[run.id])
    of = f" of {steps.get(wanted.step, step_label(wanted.step))}" if wanted.step else ""
    return part_context(request, run, found) | {
        "wanted": wanted,
        "steps": steps.items(),
        "title": f"Log{of}{', one execution' if wanted.activation else ''}",
        "lines": [
            LogLine(record=record, wanted=wanted.text, start=run.created, events=events, workflow=run.workflow)
            for record in found.records
        ],
        "wrap": wrap,
        "wrapping": address(request, wrap="off" if wrap else ""),
        "download": reverse("wfdash:run-logs-text", args=[run.id]) + address(request, wrap=""),
    }


def log_filter_of(request: HttpRequest) -> LogFilter:
    """Return the filter of an address; unknown values are ignored."""
    return LogFilter(
        step=text_in(request, "step"),
        activation=text_in(request, "activation"),
        level=level_in(request),
        text=search_in(request),
    )


@get_page
def download(request: HttpRequest, run_id: str) -> StreamingHttpResponse:
    """Send the records that match as text, oldest first, a line each; times are in UTC."""
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    return download_of(
        all_logs(viewer, run_id, log_filter_of(request)),
        lambda record: _text_line(record, run.created),
        name=f"wfdash-log-{run_id[-8:]}.txt",
        content_type="text/plain; charset=utf-8",
    )


def _text_line(record: LogLineRecord, begin: datetime) -> str:
    """Return a record as text. Its own further lines are indented, so that it cannot pass for another record."""
    at = record.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = HIDDEN if record.text is None else visible(record.text.replace("\r\n", "\n")).replace("\n", "\n    ")
    level, logger = record.level or "-", visible(record.logger).replace("\n", " ")
    return f"{at} {elapsed(record.at - begin)} {level} {record.step} {logger}: {text}\n"


SHOWN_EVENTS = 200
VIEWS = (("raw", "Chronological"), ("grouped", "By step"))
GROUPS = (
    ("step", "Steps"),
    ("request", "Requests"),
    ("call", "Calls"),
    (EventKind.LOG, "Logs"),
    (EventKind.PROGRESS, "Progress"),
    (EventKind.CUSTOM, "Custom"),
    ("signal", "Signals"),
    ("run", "Run"),
    (EventKind.STEP_FAILED, "Failed steps"),
    (EventKind.STEP_RETRYING, "Retries"),
)
FRAGMENTS = {"head": "runs/header/header.html", "events": "runs/events/events.html"}


@frozen
class StepEvents:
    """Events of one step, in order."""

    step: str
    lines: tuple[EventItem, ...]

    @property
    def last(self) -> EventItem:
        """Return its last event."""
        return self.lines[-1]


@get_page
def events(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show events, the newest unless ``before``, ``after`` or ``seq`` (one event, among its neighbours) says which.

    ``view``: raw or grouped; ``kind``, ``step``, ``level``, ``q`` narrow them.
    """
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    wanted, seq = filter_of(request), number_in(request.GET.get("seq", ""))
    before = number_in(request.GET.get("before", ""))
    if seq:
        before = min(seq + SHOWN_EVENTS // 2, run.seq) + 1
    found = find_events(
        viewer,
        run_id,
        wanted,
        before=before,
        after=following_in(request),
        limit=SHOWN_EVENTS,
        top=0 if before else run.seq,
    )
    context = head(viewer, run, "events") | _events_context(request, run, found, wanted, seq)
    return respond(request, "runs/events/page.html", context, FRAGMENTS)


def _events_context(
    request: HttpRequest, run: RunView, found: EventPage, wanted: EventFilter, seq: int
) -> dict[str, Any]:
    view = request.GET.get("view", "raw")
    view = view if view in dict(VIEWS) else "raw"
    lines = [
        event_row_of(event, inspect=run.inspect, start=run.created, workflow=run.workflow) for event in found.events
    ]
    return part_context(request, run, found) | {
        "view": view,
        "views": _views(request, view),
        "wanted": wanted,
        "kinds": GROUPS,
        "steps": step_titles(run).items(),
        "seq": seq,
        "lines": lines,
        "groups": group_by_step(found.events, lines) if view == "grouped" else (),
        "follows": "rows" if view == "raw" and not wanted else "page",
    }


def _views(request: HttpRequest, view: str) -> list[tuple[str, str, str, bool]]:
    kept = {name: address(request, view=name if name != "raw" else "") for name, _ in VIEWS}
    return [(name, label, kept[name], name == view) for name, label in VIEWS]


@get_page
def export(request: HttpRequest, run_id: str) -> StreamingHttpResponse:
    """Send the events that match as JSON lines, oldest first; ``after``: those that follow this one."""
    viewer = viewer_of(request)
    found = all_events(viewer, run_id, filter_of(request), after=number_in(request.GET.get("after", "")))
    return download_of(
        found,
        lambda event: json.dumps(event.model_dump(mode="json"), ensure_ascii=False) + "\n",
        name=f"wfdash-events-{run_id[-8:]}.jsonl",
        content_type="application/x-ndjson; charset=utf-8",
    )


def filter_of(request: HttpRequest) -> EventFilter:
    """Return the filter of an address; unknown values are ignored."""
    return EventFilter(
        kind=text_in(request, "kind", 60),
        step=text_in(request, "step"),
        level=level_in(request),
        text=search_in(request),
    )


def group_by_step(events: Iterable[Event], lines: Iterable[EventItem]) -> tuple[StepEvents, ...]:
    """Return the lines by step, in the order of each step's first event; the run itself is ''."""
    found: dict[str, list[EventItem]] = {}
    for event, line in zip(events, lines, strict=True):
        found.setdefault(event.step or "", []).append(line)
    return tuple(StepEvents(step=step, lines=tuple(members)) for step, members in found.items())


# What the pages of a run's events and of its log share: which part is shown, its links, and downloads in pieces.

T = TypeVar("T")
SENT_LINES = 500
"""Lines of a download that are sent at a time."""


class Part(Protocol):
    """A part of what happened in a run; ``older`` and ``newer``: where the next ones begin, 0 where there is none."""

    @property
    def older(self) -> int: ...
    @property
    def newer(self) -> int: ...
    @property
    def partly(self) -> bool: ...


def following_in(request: HttpRequest) -> int | None:
    """Return ``after`` of an address: what the part follows; None if it names none."""
    after = request.GET.get("after", "")
    return number_in(after) if after.isascii() and after.isdigit() else None


def level_in(request: HttpRequest) -> str:
    """Return the log level of an address; empty if it names none that there is."""
    level = request.GET.get("level", "").upper()
    return level if level in LEVELS else ""


def text_in(request: HttpRequest, name: str, most: int = 200) -> str:
    """Return a text of an address, cut to ``most`` characters, without NUL."""
    return request.GET.get(name, "")[:most].replace("\0", "")


def search_in(request: HttpRequest) -> str:
    """Return the text that an address looks for."""
    return request.GET.get("q", "").strip()[:200].replace("\0", "")


def step_titles(run: RunView) -> dict[str, str]:
    """Return the steps of a run's workflow by name, each with its title."""
    described = description_of(run.workflow, run.version)
    return {step.name: step.title or step_label(step.name) for step in described.steps} if described else {}


def part_context(request: HttpRequest, run: RunView, found: Part) -> dict[str, Any]:
    """Return the links of a part, and ``at_end``: whether it is the newest one, which alone is updated live."""
    at_end = not found.newer or found.newer >= run.seq
    return {
        "levels": LEVELS,
        "last_seq": run.seq,
        "at_end": at_end,
        "older": address(request, before=str(found.older)) if found.older > 1 else "",
        "newer": "" if at_end else address(request, after=str(found.newer)),
        "newest": "" if at_end else address(request),
        "partly": found.partly,
        "kept": address(request),
    }


def download_of(
    rows: Iterator[T], text_of: Callable[[T], str], *, name: str, content_type: str
) -> StreamingHttpResponse:
    """Return a download with a text for each row. Errors of the first rows are raised before anything is sent."""
    response = StreamingHttpResponse(_texts(list(islice(rows, SENT_LINES)), rows, text_of), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _texts(some: list[T], rest: Iterator[T], text_of: Callable[[T], str]) -> Iterator[str]:
    while some:
        yield "".join(map(text_of, some))
        some = list(islice(rest, SENT_LINES))

"""A run's events: in order or by step, filtered, each with an address of its own, exported as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from checkpoints.events import EventKind
from checkpoints.records import Event
from wfdash.pages.runs.header import address, head
from wfdash.pages.runs.paging import (
    download_of,
    following_in,
    level_in,
    part_context,
    search_in,
    step_titles,
    text_in,
)
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.numbers import number_in
from wfdash.pages.ui.fragments import EventItem, event_row_of, respond
from wfdash.queries.runs.events import EventFilter, EventPage, all_events, find_events
from wfdash.queries.runs.listing import RunView, read_run

SHOWN = 200
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


@dataclass(frozen=True, kw_only=True)
class StepEvents:
    """Events of one step, in order."""

    step: str
    lines: tuple[EventItem, ...]

    @property
    def last(self) -> EventItem:
        """Return its last event."""
        return self.lines[-1]


@page("GET")
def events(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show events, the newest unless ``before``, ``after`` or ``seq`` (one event, among its neighbours) says which.

    ``view``: raw or grouped; ``kind``, ``step``, ``level``, ``q`` narrow them.
    """
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    wanted, seq = filter_of(request), number_in(request.GET.get("seq", ""))
    before = number_in(request.GET.get("before", ""))
    if seq:
        before = min(seq + SHOWN // 2, run.seq) + 1
    found = find_events(
        viewer, run_id, wanted, before=before, after=following_in(request), limit=SHOWN, top=0 if before else run.seq
    )
    context = head(viewer, run, "events") | _page_context(request, run, found, wanted, seq)
    return respond(request, "runs/events/page.html", context, FRAGMENTS)


def _page_context(
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


@page("GET")
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

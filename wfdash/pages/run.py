"""One run: where it stands, its graph, requests, events, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from checkpoints.records import Event
from wfdash import queries
from wfdash.access import Viewer
from wfdash.pages import act
from wfdash.pages.door import page, viewer_of
from wfdash.pages.fragments import EventLine, event_line, respond
from wfdash.pages.graph import layout, travelled
from wfdash.pages.timeline import timeline
from wfdash.pages.words import standing

SHOWN = 200
OPEN_SHOWN, PAST_SHOWN = 5, 3
FRAGMENTS = {
    "live": "run/live.html",
    "head": "run/head.html",
    "graph": "run/graph.html",
    "timeline": "run/timeline.html",
    "requests": "run/requests.html",
    "rail": "run/rail.html",
    "values": "run/values.html",
    "events": "run/events.html",
}
VIEWS = (("raw", "In order"), ("grouped", "By step"))


@dataclass(frozen=True, kw_only=True)
class Group:
    """Events of one step, in order."""

    step: str
    lines: tuple[EventLine, ...]

    @property
    def last(self) -> EventLine:
        """What was heard of it last."""
        return self.lines[-1]


@page("GET")
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show one run. ``view``: raw or grouped events; ``before``: older events; ``older``: older checkpoints."""
    viewer = viewer_of(request)
    header = queries.run(viewer, run_id)
    behind = queries.behind(header)
    context: dict[str, Any] = {"run": header, "words": standing(header), "verbs": act.verbs(header), "behind": behind}
    wanted = request.GET.get("fragment", "live") or "live"
    wanted = "graph" if wanted == "timeline" else wanted
    for name, build in PARTS.items():
        if wanted in {"live", name}:
            context |= build(request, viewer, header)
    return respond(request, "run/page.html", context, FRAGMENTS)


def _graph(request: HttpRequest, viewer: Viewer, run: queries.RunView) -> dict[str, Any]:
    described = queries.description_of(run.workflow, run.version)
    moved = queries.moves(run.id)
    titles = {step.name: step.title for step in described.steps} if described else {}
    return {
        "drawing": layout(described, queries.count(moved), travelled(described.edges, moved)) if described else None,
        "timeline": timeline(moved, run.finished or timezone.now(), titles),
    }


def _requests(request: HttpRequest, viewer: Viewer, run: queries.RunView) -> dict[str, Any]:
    """Split them: open ones in the order of the inbox, the rest newest first, each with a fold for the many."""
    found = queries.requests_of(viewer, run.id)
    waiting = [item for item in reversed(found) if not item.answered and not item.closed_as]
    past = [item for item in found if item.answered or item.closed_as]
    return {
        "requests": found,
        "waiting": len(waiting),
        "request_lists": [(waiting[:OPEN_SHOWN], waiting[OPEN_SHOWN:]), (past[:PAST_SHOWN], past[PAST_SHOWN:])],
    }


def _rail(request: HttpRequest, viewer: Viewer, run: queries.RunView) -> dict[str, Any]:
    return {"rail": queries.checkpoints(viewer, run.id, before=_number(request.GET.get("older", "")))}


def _events(request: HttpRequest, viewer: Viewer, run: queries.RunView) -> dict[str, Any]:
    before = _number(request.GET.get("before", ""))
    view = request.GET.get("view", "raw")
    view = view if view in dict(VIEWS) else "raw"
    # The header was read first: an event newer than it must come over the socket, or the header stays as it is.
    found = [e for e in queries.last_events(viewer, run.id, before=before, limit=SHOWN) if e.seq <= run.seq]
    lines = [event_line(event, inspect=run.inspect) for event in found]
    return {
        "view": view,
        "views": VIEWS,
        "lines": lines,
        "groups": group(found, lines) if view == "grouped" else (),
        "last_seq": max(found[-1].seq if found else 0, 0) if not before else run.seq,
        "older_events": found[0].seq if found and found[0].seq > 1 else 0,
        "at_end": not before,
    }


def group(events: Iterable[Event], lines: Iterable[EventLine]) -> tuple[Group, ...]:
    """Return the lines by step, in the order in which each step was first heard of; the run itself is ''."""
    found: dict[str, list[EventLine]] = {}
    for event, line in zip(events, lines, strict=True):
        found.setdefault(event.step or "", []).append(line)
    return tuple(Group(step=step, lines=tuple(members)) for step, members in found.items())


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


PARTS: dict[str, Callable[[HttpRequest, Viewer, queries.RunView], dict[str, Any]]] = {
    "graph": _graph,
    "requests": _requests,
    "rail": _rail,
    "events": _events,
}
"""What each part of the page needs beyond the header; ``live`` is all of them in one answer."""

"""One run at a glance: status, graph, a step of it, requests, timeline, the newest events, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from wfdash.access.viewer import Viewer
from wfdash.domain.errors import Invalid
from wfdash.domain.json_patch import shared
from wfdash.notifications.rendering import render
from wfdash.queries.history import read_checkpoints
from wfdash.queries.requests.inbox import requests_of
from wfdash.queries.runs.before_acting import thread_of
from wfdash.queries.runs.listing import RunView, read_run, read_runs
from wfdash.queries.runs.logs import find_events, read_interventions, reasons
from wfdash.queries.runs.values import read_conversation
from wfdash.queries.step_states import StepTransition, count_states, step_transitions, time_spent
from wfdash.queries.workflows import description_of
from wfdash.web.pages.runs.actions import again_commands, follow_up_form, new_key
from wfdash.web.pages.runs.events import search_in, text_in
from wfdash.web.pages.runs.header import DRIVEN, address, head
from wfdash.web.pages.runs.state import draw, stopped_as
from wfdash.web.pages.runs.step import step_panel
from wfdash.web.pages.runs.timeline import intervals_by_state, timeline_context
from wfdash.web.pages.site.decorators import get_page, number_in, viewer_of
from wfdash.web.pages.site.list_page import flaws_of, term
from wfdash.web.pages.ui.fragments import event_row_of, respond
from wfdash.web.pages.ui.graph import opened_in
from wfdash.web.pages.ui.transcript import draw_talk

SHOWN_EVENTS = 200
"""Events on this page; the events page has all of them."""
RAIL_SIZE = 25
OPEN_SHOWN, PAST_SHOWN = 5, 3
FRAGMENTS = {
    "live": "runs/overview/live.html",
    "head": "runs/header/header.html",
    "graph": "runs/overview/graph.html",
    "step": "runs/overview/step.html",
    "timeline": "runs/overview/timeline.html",
    "requests": "runs/overview/requests.html",
    "rail": "runs/overview/rail.html",
    "values": "runs/state/values.html",
    "talk": "runs/overview/conversation.html",
    "events": "runs/events/latest.html",
    "deeds": "runs/overview/interventions.html",
}
PART_DATA = {
    "head": ("requests", "graph"),
    "graph": ("graph",),
    "step": ("graph",),
    "timeline": ("graph",),
    "requests": ("requests",),
    "rail": ("rail",),
    "values": (),
    "talk": ("talk",),
    "events": ("events",),
    "deeds": ("deeds",),
    "live": ("requests", "graph", "rail", "deeds", "thread", "talk"),
    "": ("requests", "graph", "rail", "deeds", "thread", "talk", "events"),
}
"""The data of each part of the page; refreshes leave out the events: they come by socket."""


@get_page
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show one run. ``step``, ``activation``: a step's panel; ``unfold``: open sub-workflows, comma-separated.

    ``from``, ``to``: the part of the timeline that is shown, in seconds; ``clock=wall``: nothing of it is folded;
    ``older``: older checkpoints.
    """
    viewer = viewer_of(request)
    header = read_run(viewer, run_id)
    context: dict[str, Any] = {"run": header, "last_seq": header.seq}
    context["kept"] = address(request, older=request.GET.get("older", ""))
    wanted = request.GET.get("fragment", "")
    for part in PART_DATA.get(wanted, ()):
        context |= PARTS[part](request, viewer, header)
    # Not with the live part, which is renewed all the time: they stay as they are.
    if wanted in {"", "values"} and header.inspect and viewer.may("start", header.workflow) and not header.follows:
        context["again_commands"] = again_commands(request, header)
    if wanted in {"", "live", "head"}:
        context |= head(viewer, header, "run", context["requests"], context["busy"])
    return respond(request, "runs/overview/page.html", context, FRAGMENTS)


def _graph(request: HttpRequest, viewer: Viewer, run: RunView) -> dict[str, Any]:
    described = description_of(run.workflow, run.version)
    now = timezone.now()
    end = run.finished if run.ended and run.finished else now
    driven = run.status.value in DRIVEN
    moved = step_transitions(run.id, driven_at=now if driven else None, driven=driven)
    counts, found = count_states(moved), intervals_by_state(moved, max(end, moved[-1].at) if moved else end)
    panel = step_panel(request, viewer, run, described, counts)
    opened = opened_in(request.GET.get("unfold", ""))

    def link(**changes: str) -> str:
        emptied = {"step": "", "activation": "", "of": "", "page": ""} if "step" in changes else {}
        return address(request, **{**emptied, **changes}) + ("#run-step" if changes.get("step") else "#run-graph")

    chosen, compared = panel.name if panel else "", request.GET.get("colour") == "duration"
    shown = partial(draw, link=link, opened=opened, chosen=chosen, live=not run.ended, compared=compared)
    return {
        "drawing": shown(described, moved, counts, found, stopped=stopped_as(run)) if described else None,
        "stopped": stopped_as(run),
        "step": panel,
        "opened": opened,
        "compared": compared,
        "busy": _busy(moved),
        "spent": time_spent(moved, run.created, end),
        **timeline_context(request, run, moved, end, described, panel, found),
    }


def _busy(moved: list[StepTransition]) -> dict[str, datetime]:
    """Return the running steps, with when the first of their activations started or resumed."""
    last = {(move.step, move.activation): move for move in moved}
    running = sorted((move for move in last.values() if move.state == "running"), key=lambda move: move.at)
    return {move.step: move.at for move in reversed(running)}


def _requests(request: HttpRequest, viewer: Viewer, run: RunView) -> dict[str, Any]:
    """Return the requests: open ones in the order of the inbox, the rest newest first, each folded beyond a number."""
    found = requests_of(viewer, run.id)
    waiting = [item for item in reversed(found) if not item.answered and not item.closed_as]
    past = [item for item in found if item.answered or item.closed_as]
    whys = reasons(run.id) if run.inspect and past else {}
    now, before = [[(item, whys.get(item.id, "")) for item in items] for items in (waiting, past)]
    return {
        "requests": found,
        "waiting": len(waiting),
        "request_lists": [(now[:OPEN_SHOWN], now[OPEN_SHOWN:]), (before[:PAST_SHOWN], before[PAST_SHOWN:])],
    }


def _checkpoints(request: HttpRequest, viewer: Viewer, run: RunView) -> dict[str, Any]:
    return {"rail": read_checkpoints(viewer, run.id, before=number_in(request.GET.get("older", "")), limit=RAIL_SIZE)}


def _talk(request: HttpRequest, viewer: Viewer, run: RunView) -> dict[str, Any]:
    messages = read_conversation(run.id, run.n) if run.inspect else ()
    return {"talk": draw_talk(messages, until=number_in(request.GET.get("until", "")) or None)}


def _events(request: HttpRequest, viewer: Viewer, run: RunView) -> dict[str, Any]:
    # The header was read first: an event newer than it must come over the socket, or the header is not refreshed.
    found = find_events(viewer, run.id, limit=SHOWN_EVENTS, top=run.seq)
    return {
        "lines": [
            event_row_of(event, inspect=run.inspect, start=run.created, workflow=run.workflow) for event in found.events
        ],
        "older_events": found.older,
    }


def _interventions(request: HttpRequest, viewer: Viewer, run: RunView) -> dict[str, Any]:
    return {
        "deeds": [
            event_row_of(found, inspect=False, start=run.created, workflow=run.workflow)
            for found in reversed(read_interventions(run.id))
        ]
    }


def _thread(request: HttpRequest, viewer: Viewer, run: RunView) -> dict[str, Any]:
    """Return the runs of its thread, and the form of the next message where the run takes one from this person."""
    rows, earlier = thread_of(viewer, run)
    found: dict[str, Any] = {"thread": rows, "thread_earlier": earlier}
    form = follow_up_form(run) if run.takes_follow_up else None
    return found | ({"form": form, "key": new_key()} if form else {})


PARTS: dict[str, Callable[[HttpRequest, Viewer, RunView], dict[str, Any]]] = {
    "graph": _graph,
    "requests": _requests,
    "rail": _checkpoints,
    "events": _events,
    "deeds": _interventions,
    "thread": _thread,
    "talk": _talk,
}


SIDE_MESSAGES = 100
SIDES = ("from", "to")
FOUND_RUNS = 12


@get_page
def beside(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show a run and the one named by ``with`` side by side: result and conversation; ``q`` filters runs to choose."""
    viewer, wanted, other = viewer_of(request), search_in(request), text_in(request, "with", 60)
    runs = [read_run(viewer, one) for one in (run_id, other) if one]
    said = [read_conversation(one.id, one.n) if one.inspect else () for one in runs]
    talks = [draw_talk(messages, limit=SIDE_MESSAGES) for messages in said]
    context = {"run": runs[0], "wanted": wanted, "sides": [*zip(SIDES, runs, talks, strict=False)]}
    context["shared"] = shared(*said) if other else 0
    try:
        found = read_runs(viewer, f"{term('workflow', runs[0].workflow)} {wanted}", limit=FOUND_RUNS).items
    except Invalid as error:
        return render(request, "runs/beside.html", context | {"flaws": flaws_of(error)}, status=422)
    return render(request, "runs/beside.html", context | {"rows": [row for row in found if row.id != run_id]})


@get_page
def history(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the run's checkpoints on a page of their own. ``older``: older ones."""
    viewer = viewer_of(request)
    header = read_run(viewer, run_id)
    context = head(viewer, header, "history") | {
        "rail": read_checkpoints(viewer, run_id, before=number_in(request.GET.get("older", "")), limit=100)
    }
    return respond(
        request,
        "runs/overview/history.html",
        context,
        {"head": "runs/header/header.html", "rail": "runs/overview/rail.html"},
    )

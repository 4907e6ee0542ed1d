"""The header of all pages of a run: its status as text, the tabs, and addresses that keep the current view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from wfdash.access.viewer import Viewer
from wfdash.pages.runs import actions
from wfdash.pages.runs.error_hints import hint, section_about
from wfdash.pages.runs.status_text import NOTHING, Busy, intervention_sentences, removal_sentence, status_sentence
from wfdash.pages.ui.code_links import linked_trace
from wfdash.pages.ui.documentation import guide
from wfdash.queries.hooks import callback_of
from wfdash.queries.requests.inbox import request_to_answer, requests_of
from wfdash.queries.runs.events import course_changes
from wfdash.queries.runs.listing import RunView
from wfdash.queries.runs.versions import graph_difference
from wfdash.queries.schedules import schedule_of

DRIVEN = frozenset({"running"})
PASSING = ("fragment", "before", "after", "seq", "older")
"""Parameters of an address that are not kept when another one changes."""


def tabs(run: RunView, here: str) -> tuple[tuple[str, str, str, str, bool], ...]:
    """Return the pages of a run: (name, label, address, count, whether this is it)."""
    pages = (
        ("run", "Overview", "run", ""),
        ("events", "Events", "run-events", f"{run.seq:,}"),
        ("logs", "Log", "run-logs", ""),
        ("state", "State", "run-state", ""),
        ("history", "History", "run-history", f"{run.n:,}"),
    )
    return tuple(
        (name, label, reverse(f"wfdash:{url}", args=[run.id]), count, name == here) for name, label, url, count in pages
    )


def head(
    viewer: Viewer,
    run: RunView,
    here: str,
    asked: Sequence[Any] = (),
    busy: Busy = NOTHING,
) -> dict[str, Any]:
    """Return the context of ``runs/header/header.html``. ``asked``: its requests, where the page has read them."""
    course = course_changes(run.id)
    waits = run.status == "waiting" and not asked
    requests = requests_of(viewer, run.id) if waits else asked
    buttons = actions.action_buttons(run)
    asks = any(row.open for row in requests)
    trace = run.error.traceback if run.error else ""
    lead = actions.next_action(run, buttons, request_to_answer(viewer, run.id) if asks else "")
    return {
        "run": run,
        "lead": lead,
        "where": status_sentence(run, requests, course, busy),
        "marks": intervention_sentences(course, run.altered),
        "hint": hint(run.error, reloads=settings.WFDASH_RELOAD) if run.error else "",
        "guide": guide(*section_about(run.error)) if run.error else "",
        "trace": linked_trace(viewer, run.workflow, trace) if trace else [],
        "verbs": [button for button in buttons if not lead or button.verb.name != lead.verb.name],
        "behind": graph_difference(run),
        "schedule": schedule_of(viewer, run.id),
        "removal": removal_sentence(run.removal, timezone.now()) if run.removal else (),
        "callback": callback_of(viewer, run.id, run.workflow),
        "tabs": tabs(run, here),
    }


def address(request: HttpRequest, **changes: str) -> str:
    """Return the current page's query with parts of it changed, removed where empty; ``?`` alone for none."""
    query = request.GET.copy()
    for name in (*PASSING, *changes):
        query.pop(name, None)
    for name, value in changes.items():
        if value:
            query[name] = value
    return f"?{query.urlencode()}"

"""The actions on a run: the buttons on its page, and the addresses they post to."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import NoReverseMatch, reverse

from checkpoints.events import EventKind
from checkpoints.models import Run
from checkpoints.records import Phase
from wfdash.access.viewer import Viewer
from wfdash.actions.runs.cancellation import cancel_run, pause_run, resume_run
from wfdash.actions.runs.lifecycle import retry_run
from wfdash.errors import WrongState
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.ui.event_text import cancelled
from wfdash.queries.history.events import last_events
from wfdash.queries.runs.before_acting import head_of, last_pause, read_open_work
from wfdash.queries.runs.listing import RunView, read_run
from wfdash.rendering import render

PARKED = frozenset({"waiting", "sleeping", "retrying"})
ACTIVE = PARKED | {"queued", "running", "interrupted"}
OPEN = ACTIVE | {"paused", "held"}
ANY = OPEN | {"failed", "completed", "cancelled"}


@dataclass(frozen=True, kw_only=True)
class RunAction:
    """An action on a run in one of these statuses. ``page``: it has a confirmation page of its own."""

    name: str
    label: str
    style: str
    statuses: frozenset[str]
    icon: str
    done: str = ""
    page: str = ""
    """The URL name of that page."""


@dataclass(frozen=True, kw_only=True)
class RunButton:
    """A button of an action on this run: a form with an idempotency key (``key``), or a link."""

    verb: RunAction
    address: str
    key: str = ""


ACTIONS = {
    "retry": RunAction(
        name="retry",
        label="Retry",
        style="primary",
        statuses=frozenset({"failed"}),
        icon="arrow-path",
        done="Retrying. Only failed and interrupted steps run again.",
    ),
    "answer": RunAction(
        name="answer",
        label="Answer again…",
        style="",
        statuses=frozenset({"failed"}),
        icon="chat-bubble-left-ellipsis",
        page="restore",
    ),
    "edit": RunAction(
        name="edit",
        label="Edit and retry…",
        style="",
        statuses=frozenset({"failed"}),
        icon="pencil-square",
        page="edit",
    ),
    "resume": RunAction(
        name="resume",
        label="Resume",
        style="primary",
        statuses=frozenset({"paused"}),
        icon="play",
        done="Resumed from its latest checkpoint.",
    ),
    "handover": RunAction(
        name="handover",
        label="Hand over to workers",
        style="primary",
        statuses=frozenset({"queued", "interrupted"}),
        icon="play",
        done="Handed over: a worker continues the run from its latest checkpoint.",
    ),
    "pause": RunAction(
        name="pause",
        label="Pause",
        style="",
        statuses=ACTIVE,
        icon="pause",
        done="Paused. Answers are kept.",
    ),
    "pausenow": RunAction(
        name="pausenow",
        label="Pause now",
        style="quiet",
        statuses=frozenset({"running"}),
        icon="pause",
        done="Paused. Interrupted steps restart when the run is resumed.",
    ),
    "force": RunAction(
        name="force",
        label="Do not wait",
        style="danger",
        statuses=frozenset({"queued"}),
        icon="forward",
        done="The run continues, although one of its functions may still be running elsewhere.",
    ),
    "signal": RunAction(
        name="signal",
        label="Send signal…",
        style="quiet",
        statuses=OPEN | {"failed"},
        icon="paper-airplane",
        page="run-signal",
    ),
    "again": RunAction(
        name="again",
        label="Run again…",
        style="quiet",
        statuses=ANY,
        icon="document-duplicate",
        page="workflow",
    ),
    "cancel": RunAction(
        name="cancel",
        label="Cancel run…",
        style="danger",
        statuses=OPEN,
        icon="no-symbol",
        page="run-cancel",
    ),
    "delete": RunAction(
        name="delete",
        label="Delete run…",
        style="quiet",
        statuses=ANY - OPEN,
        icon="trash",
        page="run-delete",
    ),
}
REVIEW = RunAction(
    name="review",
    label="Review request",
    style="primary",
    statuses=ACTIVE,
    icon="chat-bubble-left-ellipsis",
    page="request",
)
REVIEW_CHANGE = RunAction(
    name="migrate",
    label="Review version change",
    style="primary",
    statuses=frozenset({"held"}),
    icon="arrow-path",
    page="run-migrate",
)
PAUSES_LATER = "The run pauses after the running steps. Their results are kept and no other step starts."
HANDLERS: dict[str, Callable[..., Run]] = {
    "retry": retry_run,
    "resume": resume_run,
    "handover": resume_run,
    "pause": pause_run,
    "pausenow": partial(pause_run, now=True),
    "force": partial(resume_run, force=True),
}


def action_buttons(run: RunView) -> list[RunButton]:
    """Return the buttons of a run; none for people who may not operate."""
    offered = [verb for verb in ACTIONS.values() if run.operate and run.status.value in verb.statuses]
    offered = [verb for verb in offered if verb.name != "force" or run.lingers]
    offered = [verb for verb in offered if verb.name != "handover" or run.awaits_program]
    offered = [verb for verb in offered if verb.name != "edit" or run.edits]
    # What begins a follow-up is the end of another run, not its message alone.
    offered = [verb for verb in offered if verb.name != "again" or run.follows is None]
    offered = [verb for verb in offered if verb.name != "pause" or run.ending != "paused"]
    return [
        RunButton(verb=verb, address=address, key=new_key()) for verb in offered if (address := _address(run, verb))
    ]


def next_action(run: RunView, buttons: list[RunButton], review: str = "") -> RunButton | None:
    """Return the one action that takes the run further, None where there is nothing to do but wait.

    ``review``: the id of its open request that this person should answer first.
    """
    if lead := next((button for button in buttons if button.verb.style == "primary"), None):
        return lead
    if run.status.value in REVIEW_CHANGE.statuses and run.operate:
        return RunButton(verb=REVIEW_CHANGE, address=reverse(f"wfdash:{REVIEW_CHANGE.page}", args=[run.id]))
    if review and run.status.value in REVIEW.statuses:
        return RunButton(verb=REVIEW, address=reverse(f"wfdash:{REVIEW.page}", args=[review]))
    send = next((button for button in buttons if button.verb.name == "signal"), None)
    waits = run.status.value == "waiting" and run.signal
    return replace(send, verb=replace(send.verb, style="primary")) if send and waits else None


def new_key() -> str:
    """Return an idempotency key for a form."""
    return secrets.token_urlsafe(12)


@page("POST")
def perform(request: HttpRequest, run_id: str, verb: str) -> HttpResponse:
    """Perform an action and redirect to the run, with a message if it was refused."""
    try:
        run = HANDLERS[verb](viewer_of(request), run_id, key=key_of(request))
    except WrongState as error:
        messages.warning(request, str(error))
    else:
        later = verb == "pause" and run.phase != Phase.PAUSED
        messages.success(request, PAUSES_LATER if later else ACTIONS[verb].done)
    return redirect("wfdash:run", run_id)


@page("GET", "POST")
def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what is open in a run before it is cancelled. A POST cancels it; with ``when=step`` once the step has
    ended.
    """
    viewer = viewer_of(request)
    if request.method != "POST":
        context = {"run": read_run(viewer, run_id), "open": read_open_work(viewer, run_id)}
        return render(request, "runs/actions/cancel.html", context)
    later = request.POST.get("when") == "step"
    try:
        run = cancel_run(viewer, run_id, after_step=later, key=key_of(request))
    except WrongState as error:
        messages.warning(request, str(error))
    else:
        _flash_cancelled(request, viewer, run)
    return redirect("wfdash:run", run_id)


def _flash_cancelled(request: HttpRequest, viewer: Viewer, run: Run) -> None:
    """Flash what cancelling did; as a warning if it interrupted something."""
    if run.phase != Phase.CANCELLED:
        messages.success(request, "The run is cancelled after the current step. Its result is kept.")
        return
    last = last_events(viewer, run.pk, limit=1)
    facts = last[-1].data if last and last[-1].kind == EventKind.RUN_CANCELLED else {}
    level = messages.WARNING if facts.keys() & {"fenced", "unsure"} else messages.SUCCESS
    messages.add_message(request, level, cancelled(facts, run.workflow))


def _address(run: RunView, verb: RunAction) -> str:
    """Return the address of an action or its page; empty if there is none."""
    if verb.name == "again":
        return f"{reverse('wfdash:workflow', args=[run.workflow])}?from={run.id}"
    try:
        if verb.name == "answer":
            pause = last_pause(run.id)
            return reverse("wfdash:restore", args=[run.id, pause]) if pause else ""
        if verb.name == "edit":
            head = head_of(run.id)
            return f"{reverse('wfdash:edit', args=[run.id, head])}?what=restore" if head else ""
        return (
            reverse(f"wfdash:{verb.page}", args=[run.id])
            if verb.page
            else reverse("wfdash:run-act", args=[run.id, verb.name])
        )
    except NoReverseMatch:
        return ""

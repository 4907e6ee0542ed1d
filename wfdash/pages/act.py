"""What can be done to a run: the buttons on its page, and the addresses they go to."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse

from checkpoints.models import Run
from checkpoints.records import Phase
from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.errors import WrongState
from wfdash.pages.door import key_of, page, viewer_of
from wfdash.pages.words import cancelled

PARKED = frozenset({"waiting", "sleeping", "retrying"})
GOING = PARKED | {"queued", "running", "interrupted"}
OPEN = GOING | {"paused", "held"}
ANY = OPEN | {"failed", "completed", "cancelled"}


@dataclass(frozen=True, kw_only=True)
class Verb:
    """Something that can be done to a run in one of these statuses. ``page``: it is asked for on a page of its own."""

    name: str
    label: str
    style: str
    statuses: frozenset[str]
    icon: str
    said: str = ""
    page: str = ""
    """The name of that page's address."""


@dataclass(frozen=True, kw_only=True)
class Button:
    """A verb on this run: a form that does it (``key``: done once, however often it is sent), or a link."""

    verb: Verb
    address: str
    key: str = ""


VERBS = {
    "retry": Verb(
        name="retry",
        label="Try again",
        style="primary",
        statuses=frozenset({"failed"}),
        icon="arrow-path",
        said="Trying again: only the steps that failed or were cut off run again.",
    ),
    "edit": Verb(
        name="edit",
        label="Edit and try again …",
        style="",
        statuses=frozenset({"failed"}),
        icon="pencil-square",
        page="edit",
    ),
    "resume": Verb(
        name="resume",
        label="Resume",
        style="primary",
        statuses=frozenset({"paused"}),
        icon="play",
        said="The run goes on from its latest checkpoint.",
    ),
    "pause": Verb(
        name="pause",
        label="Pause",
        style="",
        statuses=GOING,
        icon="pause",
        said="Paused. Nothing drives it until somebody resumes it; answers are kept.",
    ),
    "signal": Verb(
        name="signal",
        label="Send a signal …",
        style="quiet",
        statuses=OPEN | {"failed"},
        icon="paper-airplane",
        page="run-signal",
    ),
    "again": Verb(
        name="again",
        label="Start another …",
        style="quiet",
        statuses=ANY,
        icon="document-duplicate",
        page="workflow",
    ),
    "cancel": Verb(
        name="cancel",
        label="Cancel …",
        style="danger",
        statuses=OPEN,
        icon="no-symbol",
        page="run-cancel",
    ),
}
DEEDS: dict[str, Callable[..., Run]] = {
    "retry": desk.retry_run,
    "resume": desk.resume_run,
    "pause": desk.pause_run,
}


def verbs(run: queries.RunView) -> list[Button]:
    """Return the buttons of a run as it stands, for ``run/verbs.html``; none for those who may not operate."""
    offered = [verb for verb in VERBS.values() if run.operate and run.status.value in verb.statuses]
    return [Button(verb=verb, address=address, key=new_key()) for verb in offered if (address := _address(run, verb))]


def new_key() -> str:
    """Return a key for a form: sent twice, it is done once."""
    return secrets.token_urlsafe(12)


@page("POST")
def act(request: HttpRequest, run_id: str, verb: str) -> HttpResponse:
    """Carry out a verb and go back to the run; what cannot be done is said there."""
    try:
        DEEDS[verb](viewer_of(request), run_id, key=key_of(request))
    except WrongState as error:
        messages.warning(request, str(error))
    else:
        messages.success(request, VERBS[verb].said)
    return redirect("run", run_id)


@page("GET", "POST")
def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what is open in a run before it is cancelled. A POST does it; with ``when=step`` once the step has ended."""
    viewer = viewer_of(request)
    if request.method != "POST":
        context = {"run": queries.run(viewer, run_id), "open": queries.open_in(viewer, run_id)}
        return render(request, "run/cancel.html", context)
    later = request.POST.get("when") == "step"
    try:
        run = desk.cancel_run(viewer, run_id, after_step=later, key=key_of(request))
    except WrongState as error:
        messages.warning(request, str(error))
    else:
        _say(request, viewer, run)
    return redirect("run", run_id)


def _say(request: HttpRequest, viewer: Viewer, run: Run) -> None:
    """Say what cancelling did; with a warning if it cut something off."""
    if run.phase != Phase.CANCELLED:
        messages.success(request, "The run ends as soon as the step that runs has ended. What it does is kept.")
        return
    last = queries.last_events(viewer, run.pk, limit=1)
    told = last[-1].data if last and last[-1].kind == "run.cancelled" else {}
    level = messages.WARNING if told.keys() & {"fenced", "unsure"} else messages.SUCCESS
    messages.add_message(request, level, cancelled(told))


def _address(run: queries.RunView, verb: Verb) -> str:
    """Return where a verb is done or asked for; empty if that cannot be."""
    if verb.name == "again":
        return f"{reverse('workflow', args=[run.workflow])}?from={run.id}"
    try:
        if verb.name == "edit":
            head = queries.head_of(run.id)
            return f"{reverse('edit', args=[run.id, head])}?what=restore" if head else ""
        return reverse(verb.page, args=[run.id]) if verb.page else reverse("run-act", args=[run.id, verb.name])
    except NoReverseMatch:
        return ""

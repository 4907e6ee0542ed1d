"""The actions on a run: the buttons on its page, and the addresses they post to."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import NoReverseMatch, reverse

from checkpoints.errors import CheckpointsError, Incompatible
from checkpoints.events import EventKind
from checkpoints.models import Run
from checkpoints.records import Json, JsonObject, Phase, frozen
from wfdash.access.viewer import Viewer
from wfdash.actions.runs import bulk
from wfdash.actions.runs import lifecycle as follow_ups
from wfdash.actions.runs.lifecycle import cancel_run, pause_run, resume_run, retry_run
from wfdash.actions.runs.migrate import migrate_run, override_run
from wfdash.actions.runs.signals import send_signal
from wfdash.domain.errors import AlreadyFollowed, Invalid, NotAllowed, WrongState, status_for
from wfdash.engines import catalog
from wfdash.engines.catalog import secrets_of
from wfdash.notifications.rendering import render
from wfdash.queries.checkpoints.checkpoint import read_checkpoint
from wfdash.queries.history import last_events
from wfdash.queries.runs.before_acting import (
    RunSignals,
    contents_of,
    head_of,
    last_pause,
    read_open_work,
    read_signals,
    signal_wait,
)
from wfdash.queries.runs.listing import RunView, read_run
from wfdash.queries.runs.versions import graph_difference, migration_plan
from wfdash.queries.workflows import WorkflowRow
from wfdash.values.schemas.secrets import masked, sample
from wfdash.web.pages.site.decorators import form_page, key_of, post_page, viewer_of
from wfdash.web.pages.ui.commands import Commands, commands
from wfdash.web.pages.ui.event_text import cancelled
from wfdash.web.pages.ui.forms.form import FormView

# The commands that start a run from a program, with the input that the page shows.


def start_commands(request: HttpRequest, row: WorkflowRow, initial: Json) -> Commands:
    """Return the commands of a start form. ``initial``: what fills it; else the first example, or a made-up input."""
    made = sample(row.description.input_schema)
    examples = row.description.examples
    given = initial if initial is not None else examples[0] if examples else made
    safe = masked(given, secrets_of(row.name))
    return _commands(request, "Start from a program", row.name, _completed(safe, made))


def again_commands(request: HttpRequest, run: RunView) -> Commands:
    """Return the commands that start another run with a run's input, for people who may inspect it."""
    return _commands(request, "Run again from a program", run.workflow, run.input)


def _commands(request: HttpRequest, title: str, workflow: str, message: Json) -> Commands:
    body = {"workflow": workflow, "message": message}
    return commands(request, "start-commands", title, reverse("wfdash:api:start_run"), body)


def _completed(given: Json, made: Json) -> Json:
    """Return an input with what it lacks of the required fields: secrets are never copied."""
    if isinstance(given, Mapping) and isinstance(made, Mapping):
        missing = {name: part for name, part in made.items() if name not in given}
        return {name: _completed(part, made.get(name)) for name, part in given.items()} | missing
    return given


# The next message to a completed run: its form on the run's page, and the page that says why it was refused.

PREFIX = "next"


def follow_up_form(run: RunView) -> FormView | None:
    """Return the form of the message that follows up on a run; None where its workflow takes none."""
    entry = catalog.find(run.workflow)
    schema = entry.description.follow_up_schema if entry else None
    return None if schema is None else FormView.from_schema(schema, prefix=PREFIX)


@form_page
def follow_up(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the form of the next message; a POST starts the run that follows, and goes there."""
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    if not viewer.may("start", run.workflow):
        raise NotAllowed("You cannot start runs of this workflow. Ask an operator or admin of the workflow")
    form = follow_up_form(run)
    context: dict[str, Any] = {"run": run}
    if form is None or request.method != "POST":
        return _form_page(request, "follow_up", context | {"form": form})
    bound = form.bind(request.POST, request.FILES)
    if not bound.is_valid:
        return _form_page(request, "follow_up", context | {"form": bound}, status=200 if bound.changed_rows else 422)
    try:
        later = follow_ups.follow_up(viewer, run_id, bound.value, key=key_of(request))
    except Invalid as error:
        return _form_page(request, "follow_up", context | {"form": bound.with_errors(error.errors)}, status=422)
    except (WrongState, CheckpointsError) as error:
        other = error.facts.get("run") if isinstance(error, AlreadyFollowed) else None
        context |= {"form": bound, "problem": str(error), "other": other}
        return _form_page(request, "follow_up", context, status=status_for(error))
    messages.success(request, "Sent. This run continues from the end of the one before.")
    return redirect("wfdash:run", later.pk)


def _form_page(request: HttpRequest, name: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    key = request.POST.get("_key") or new_key()
    return render(request, f"runs/actions/{name}.html", context | {"key": key}, status=status)


# Sending a signal to a run: its name, and a form for what the waiting step takes.

ANY_VALUE: JsonObject = {"title": "Value", "description": "JSON. Leave empty to send no value."}


@form_page
def signal(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what the run waits for; a POST sends the signal ``name``, with the form's value."""
    viewer = viewer_of(request)
    found = read_signals(viewer, run_id)
    name = request.GET.get("name", "").strip() or _only(found)
    wait = next((wait for wait in found.waits if wait.name == name), None)
    if request.POST.get("_request"):
        # The posted form is read as it was shown; the idempotency key makes a repeated one harmless.
        wait = signal_wait(viewer, run_id, request.POST["_request"]) or wait
    form = FormView.from_schema(wait.answer_schema if wait else ANY_VALUE, initial=wait.before if wait else None)
    context = {"run": read_run(viewer, run_id), "found": found, "name": name, "wait": wait, "form": form}
    if request.method != "POST" or not name:
        return _form_page(request, "signal", context)
    bound = form.bind(request.POST, request.FILES)
    empty = wait is None and not request.POST.get("value", "").strip()
    if not empty and not bound.is_valid:
        return _form_page(request, "signal", context | {"form": bound}, status=200 if bound.changed_rows else 422)
    try:
        sent = send_signal(viewer, run_id, name, None if empty else bound.value, key=key_of(request))
    except Invalid as error:
        wrong = [one for one in error.errors if list(one["loc"]) == ["name"]]
        inside = [{**one, "loc": list(one["loc"])[1:]} for one in error.errors if one not in wrong]
        problem = str(wrong[0]["msg"]) if wrong else ""
        return _form_page(
            request, "signal", context | {"form": bound.with_errors(inside), "problem": problem}, status=422
        )
    except WrongState as error:
        messages.warning(request, str(error))
    else:
        messages.success(request, _sent_message(name, received=bool(sent.taken)))
    return redirect("wfdash:run", run_id)


def _only(found: RunSignals) -> str:
    """Return the name of the awaited signal, if there is only one."""
    names = {wait.name for wait in found.waits}
    return names.pop() if len(names) == 1 else ""


def _sent_message(name: str, *, received: bool) -> str:
    if received:
        return f"Signal {name} received by a step."
    return f"Signal {name} sent. It is kept until a step waits for it."


# A run whose workflow has changed: a preview of migrating or overriding, and its button.

MIGRATED = "Run migrated to the current version. Answers are kept."
OVERRIDDEN = "Run continued on the current version. Answers are kept."


@form_page
def migrate(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what the declared migration would do; a POST does it."""
    return _migration_page(request, run_id, override=False)


@form_page
def override(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what continuing under the current graph would do; a POST does it."""
    return _migration_page(request, run_id, override=True)


def _migration_page(request: HttpRequest, run_id: str, *, override: bool) -> HttpResponse:
    if request.method != "POST":
        return _preview(request, run_id, override)
    try:
        verb = override_run if override else migrate_run
        verb(viewer_of(request), run_id, key=key_of(request))
    except Incompatible as error:
        return _preview(request, run_id, override, status=status_for(error))
    except WrongState as error:
        messages.warning(request, str(error))
    else:
        messages.success(request, OVERRIDDEN if override else MIGRATED)
    return redirect("wfdash:run", run_id)


def _preview(request: HttpRequest, run_id: str, override: bool, status: int = 200) -> HttpResponse:
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    choice = migration_plan(viewer, run_id, override=override)
    context = {"run": run, "behind": graph_difference(run), "choice": choice}
    return render(request, "runs/actions/migrate.html", context, status=status)


# Deleting a run or one checkpoint: a page that lists what is deleted and what stays, and the POST that does it.


@form_page
def delete_run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what is deleted with a run. A POST deletes it and redirects to the list."""
    viewer = viewer_of(request)
    if request.method != "POST":
        context = {"run": read_run(viewer, run_id), "held": contents_of(viewer, run_id)}
        return render(request, "runs/actions/delete.html", context)
    try:
        bulk.delete_run(viewer, run_id, key=key_of(request))
    except WrongState as error:
        messages.warning(request, str(error))
        return redirect("wfdash:run", run_id)
    messages.success(request, "Run deleted. Its audit entries are kept.")
    return redirect("wfdash:runs")


@form_page
def delete_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Ask whether to delete a checkpoint. A POST does and redirects to the run's checkpoints, or says why it is
    refused.
    """
    viewer = viewer_of(request)
    if request.method != "POST":
        found = read_checkpoint(viewer, run_id, checkpoint_id)
        contents_of(viewer, run_id)
        context = {"run": read_run(viewer, run_id), "info": found.info}
        return render(request, "checkpoints/delete.html", context)
    try:
        bulk.delete_checkpoint(viewer, run_id, checkpoint_id, key=key_of(request))
    except WrongState as error:
        messages.warning(request, str(error))
        return redirect("wfdash:checkpoint", run_id, checkpoint_id)
    messages.success(request, "Checkpoint deleted.")
    return redirect("wfdash:run-history", run_id)


PARKED = frozenset({"waiting", "sleeping", "retrying"})
ACTIVE = PARKED | {"queued", "running", "interrupted"}
OPEN = ACTIVE | {"paused", "held"}
ANY = OPEN | {"failed", "completed", "cancelled"}


@dataclass(frozen=True)
class RunAction:
    """An action on a run in one of these statuses. ``page``: it has a confirmation page of its own."""

    name: str
    label: str
    icon: str
    statuses: frozenset[str]
    style: str = ""
    done: str = ""
    page: str = ""
    """The URL name of that page."""


@frozen
class RunButton:
    """A button of an action on this run: a form with an idempotency key (``key``), or a link."""

    verb: RunAction
    address: str
    key: str = ""


ACTIONS = {
    verb.name: verb
    for verb in (
        RunAction(
            "retry",
            "Retry",
            "arrow-path",
            style="primary",
            statuses=frozenset({"failed"}),
            done="Retrying. Only failed and interrupted steps run again.",
        ),
        RunAction(
            "answer", "Answer again…", "chat-bubble-left-ellipsis", statuses=frozenset({"failed"}), page="restore"
        ),
        RunAction("edit", "Edit and retry…", "pencil-square", statuses=frozenset({"failed"}), page="edit"),
        RunAction(
            "resume",
            "Resume",
            "play",
            style="primary",
            statuses=frozenset({"paused"}),
            done="Resumed from its latest checkpoint.",
        ),
        RunAction(
            "handover",
            "Hand over to workers",
            "play",
            style="primary",
            statuses=frozenset({"queued", "interrupted"}),
            done="Handed over: a worker continues the run from its latest checkpoint.",
        ),
        RunAction("pause", "Pause", "pause", statuses=ACTIVE, done="Paused. Answers are kept."),
        RunAction(
            "pausenow",
            "Pause now",
            "pause",
            style="quiet",
            statuses=frozenset({"running"}),
            done="Paused. Interrupted steps restart when the run is resumed.",
        ),
        RunAction(
            "force",
            "Do not wait",
            "forward",
            style="danger",
            statuses=frozenset({"queued"}),
            done="The run continues, although one of its functions may still be running elsewhere.",
        ),
        RunAction(
            "signal", "Send signal…", "paper-airplane", style="quiet", statuses=OPEN | {"failed"}, page="run-signal"
        ),
        RunAction("again", "Run again…", "document-duplicate", style="quiet", statuses=ANY, page="workflow"),
        RunAction("cancel", "Cancel run…", "no-symbol", style="danger", statuses=OPEN, page="run-cancel"),
        RunAction("delete", "Delete run…", "trash", style="quiet", statuses=ANY - OPEN, page="run-delete"),
    )
}
REVIEW = RunAction(
    "review", "Review request", "chat-bubble-left-ellipsis", style="primary", statuses=ACTIVE, page="request"
)
REVIEW_CHANGE = RunAction(
    "migrate", "Review version change", "arrow-path", style="primary", statuses=frozenset({"held"}), page="run-migrate"
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


@post_page
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


@form_page
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

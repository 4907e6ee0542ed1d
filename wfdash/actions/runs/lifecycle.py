"""Start and retry a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

from django.db import IntegrityError
from django.db.models import Q
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.alias import atomic
from checkpoints.database.runs import made_ready
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import Run, WorkflowVersion
from checkpoints.models.user_model import User
from checkpoints.records import Json, Phase
from checkpoints.rules import Priority
from checkpoints.sql.tables import run_row
from wfdash.access.viewer import Viewer
from wfdash.actions import audit, pacing
from wfdash.actions.common import append_event, find_run, move_run, notify_workers
from wfdash.actions.pacing import idempotent
from wfdash.actions.runs import search_index
from wfdash.contract import Description, InvalidInput
from wfdash.domain.errors import Invalid, KeyReused, NotAllowed, NotFound
from wfdash.domain.search_attributes import summary_of, title_of
from wfdash.engines import catalog
from wfdash.values.schemas.secrets import masked
from wfdash.values.schemas.validate import flaws_of


def start_run(
    viewer: Viewer,
    workflow: str,
    message: Json,
    *,
    key: str | None = None,
    requesters: Iterable[str] = (),
    begun: Callable[[Run], None] | None = None,
) -> Run:
    """Start a run and return it. The same ``key`` from the same person starts it once and returns that run again.

    ``requesters``: who else counts as its requester, as in ``begin_run``. ``begun`` is called in the transaction that
    creates the run.

    ``Invalid`` with errors per field when the message does not match the workflow's input.
    """
    entry, message = _startable(viewer, workflow, message)
    start_key = _start_key(viewer, key) if key else None
    with write():
        known = Run.objects.filter(start_key=start_key).first() if start_key else None
        if known is not None:
            return _same_start(known, workflow, message)
        pacing.charge(viewer, "start")
        try:
            run = begin_run(viewer, entry, message, start_key=start_key, requesters=requesters)
        except IntegrityError:
            return _same_start(Run.objects.get(start_key=start_key), workflow, message)
        if begun is not None:
            begun(run)
    return run


def check_start(viewer: Viewer, workflow: str, message: Json) -> Json:
    """Return the message as a run would receive it, without secrets; starts nothing. ``Invalid`` with errors per
    field.
    """
    entry, message = _startable(viewer, workflow, message)
    return masked(message, entry.secrets)


def _startable(viewer: Viewer, workflow: str, message: Json) -> tuple[catalog.Entry, Json]:
    """Return the workflow and the message as its run will receive it."""
    if not viewer.may("start", workflow):
        raise _refusal(viewer, workflow, "start runs of this workflow")
    entry = catalog.get(workflow)
    return entry, checked_input(entry, message)


def checked_input(entry: catalog.Entry, message: Json) -> Json:
    """Return the message as a run of this workflow will receive it. ``Invalid`` with errors per field. Runs author's
    code.
    """
    if flaws := flaws_of(message):
        raise Invalid(flaws)
    try:
        return entry.engine.check_input(entry.definition, message)
    except InvalidInput as error:
        raise Invalid(error.errors) from error


def begin_run(
    viewer: Viewer,
    entry: catalog.Entry,
    message: Json,
    *,
    start_key: str | None = None,
    right: str = "start",
    facts: Mapping[str, Json] | None = None,
    requesters: Iterable[str] = (),
    priority: Priority = Priority.STARTED,
) -> Run:
    """Create a run for this person inside the caller's transaction, with event and audit entry, and return it.

    ``message`` as ``checked_input`` returned it. ``facts`` are added to event and audit entry. ``requesters``: who else
    counts as its requester. ``IntegrityError``: there is a run with this ``start_key``; the transaction can continue as
    if nothing had been tried.
    """
    recorded = dict(facts or {})
    remember_version(entry.description)
    with atomic():
        run = _create_run(viewer, entry, message, start_key, requesters, priority)
    search_index.index_run(run, message)
    append_event(run, EventKind.RUN_QUEUED.draft(by=viewer.name, **recorded))
    audit.record_run(viewer, "start", run, right=right, **recorded)
    notify_workers(run.id)
    return run


def retry_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Retry a failed run from its latest checkpoint and return it: only failed and interrupted steps run again."""
    with write(), idempotent(viewer, key, "retry", [run_id]) as call:
        run = find_run(viewer, run_id, right="operate")
        if call.previous_result is not None:
            return run
        again = {"error": None, "finished": None, "attempts": 0, **made_ready(Priority.STARTED)}
        move_run(run, Q(phase=Phase.FAILED), "retry", viewer, **again)
        append_event(run, EventKind.RUN_RETRIED.draft(by=viewer.name))
        audit.record_run(viewer, "retry", run)
        notify_workers(run.id)
    return run


def _start_key(viewer: Viewer, key: str) -> str:
    """Return the key as stored: at most 200 characters that any database accepts."""
    short = len(key) <= 40 and key.isascii() and key.isprintable()
    return f"{viewer.name}:{key if short else sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:48]}"


def _refusal(viewer: Viewer, workflow: str, what: str) -> Exception:
    if viewer.may("see", workflow):
        return NotAllowed(f"You cannot {what}. Ask an operator or admin of the workflow")
    return NotFound(f"No workflow named {workflow!r}")


def _create_run(
    viewer: Viewer,
    entry: catalog.Entry,
    message: Json,
    start_key: str | None,
    requesters: Iterable[str],
    priority: Priority,
) -> Run:
    now, description = timezone.now(), entry.description
    run_id = ids.new_run_id()
    named = {name: getattr(description, name) for name in ("workflow", "version", "engine")}
    return Run.objects.create(
        **run_row(run_id, **named, title=description.title[:300], priority=priority),
        **names_of(entry, message),
        input=message,
        created_by=viewer.user if isinstance(viewer.user, User) else None,
        created=now,
        updated=now,
        start_key=start_key,
        requesters=sorted({*requesters, *viewer.names} - {viewer.name}) or None,
    )


def _same_start(run: Run, workflow: str, message: Json) -> Run:
    if run.workflow != workflow or run.input != message:
        raise KeyReused("This idempotency key was already used for a different start. Use a new key")
    return run


def remember_version(description: Description) -> None:
    """Store the graph, so that runs started under it can be drawn and compared later.

    What an earlier release stored without the graph's channels is stored again.
    """
    document = description.model_dump(mode="json")
    row, _ = WorkflowVersion.objects.get_or_create(
        workflow=description.workflow, version=description.version, defaults={"description": document}
    )
    if description.channels and not row.description.get("channels"):
        row.description = document
        row.save(update_fields=["description"])


# What a run is called when it is created: stored as content, so encrypted where the settings name keys.


def names_of(entry: catalog.Entry, message: Json) -> dict[str, str | None]:
    """Return the columns that name a run with this input: its own title, and the summary of its input."""
    described = entry.description
    own = title_of(described.run_title, message, entry.secrets) if described.run_title else ""
    return {"own_title": own or None, "summary": summary_of(message, described.input_schema, entry.secrets) or None}


def names_of_follow_up(earlier: Run, entry: catalog.Entry, message: Json) -> dict[str, str | None]:
    """Return those of a run that follows another: the thread keeps its title, the summary is that of the message."""
    summary = summary_of(message, entry.description.follow_up_schema or {}, entry.secrets)
    return {"own_title": earlier.own_title, "summary": summary or None}


def names_of_fork(origin: Run, message: Json) -> dict[str, str | None]:
    """Return those of a fork: its origin's, unless it has another input."""
    entry = catalog.find(origin.workflow)
    if entry is None or message == origin.input:
        return {"own_title": origin.own_title, "summary": origin.summary}
    return names_of(entry, message)

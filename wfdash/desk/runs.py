"""Verbs on runs: start, pause, resume, retry."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Run, WorkflowVersion
from checkpoints.orm import write
from checkpoints.records import Json, Phase
from checkpoints.rules import TIMED
from wfdash import catalog
from wfdash.access import Viewer
from wfdash.contract import Description, InvalidInput
from wfdash.desk import audit, finding
from wfdash.desk.common import append_event, find_run, hint, move_run
from wfdash.desk.keys import once
from wfdash.errors import Invalid, KeyReused, NotAllowed, NotFound
from wfdash.schema import flaws_of


def start_run(viewer: Viewer, workflow: str, message: Json, *, key: str | None = None) -> Run:
    """Start a run. The same ``key`` from the same person starts it once and returns that run again.

    ``Invalid`` with errors per field when the message does not fit the workflow's input.
    """
    if not viewer.may("start", workflow):
        raise _refusal(viewer, workflow, "start runs of this workflow")
    entry = catalog.get(workflow)
    message = checked_input(entry, message)
    start_key = _start_key(viewer, key) if key else None
    with write():
        known = Run.objects.filter(start_key=start_key).first() if start_key else None
        if known is not None:
            return _same_start(known, workflow, message)
        try:
            return begin_run(viewer, entry, message, start_key=start_key)
        except IntegrityError:
            return _same_start(Run.objects.get(start_key=start_key), workflow, message)


def checked_input(entry: catalog.Entry, message: Json) -> Json:
    """Return the message as a run of this workflow will get it; ``Invalid`` with errors per field. Author's code."""
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
) -> Run:
    """Create a run in this person's name inside the caller's transaction, with event, audit row and bell.

    ``message`` as ``checked_input`` gave it. ``facts`` stand in event and audit row. ``IntegrityError``: there is a run
    with this ``start_key``; the transaction goes on as if nothing had been tried.
    """
    told = dict(facts or {})
    remember_version(entry.description)
    with transaction.atomic():
        run = _create_run(viewer, entry.description, message, start_key)
    finding.remember(run, message)
    append_event(run, "run.queued", {"by": viewer.name, **told})
    audit.record_run(viewer, "start", run, right=right, **told)
    hint(run.id)
    return run


def pause_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Hold a run until somebody resumes it: nothing drives it, answers are kept. It stays so."""
    with write(), once(viewer, key, "pause", [run_id]) as deed:
        run = find_run(viewer, run_id, right="operate")
        if deed.before is not None:
            return run
        move_run(run, Q(phase__in=[Phase.READY, *TIMED]), "pause", viewer, phase=Phase.PAUSED)
        append_event(run, "run.paused", {"by": viewer.name})
        audit.record_run(viewer, "pause", run)
        hint(run.id)
    return run


def resume_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Let a paused run go on from its latest checkpoint; one that is held is looked at again."""
    with write(), once(viewer, key, "resume", [run_id]) as deed:
        run = find_run(viewer, run_id, right="operate")
        if deed.before is not None:
            return run
        move_run(run, Q(phase=Phase.PAUSED), "resume", viewer, phase=Phase.READY, error=None)
        append_event(run, "run.resumed", {"by": viewer.name})
        audit.record_run(viewer, "resume", run)
        hint(run.id)
    return run


def retry_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Try a failed run again from its latest checkpoint: only the steps that failed or were cut off run again."""
    with write(), once(viewer, key, "retry", [run_id]) as deed:
        run = find_run(viewer, run_id, right="operate")
        if deed.before is not None:
            return run
        move_run(run, Q(phase=Phase.FAILED), "retry", viewer, phase=Phase.READY, error=None, finished=None, attempts=0)
        append_event(run, "run.retried", {"by": viewer.name})
        audit.record_run(viewer, "retry", run)
        hint(run.id)
    return run


def _start_key(viewer: Viewer, key: str) -> str:
    """Return the key as it is stored, at most 200 characters of any database's text."""
    short = len(key) <= 40 and key.isascii() and key.isprintable()
    return f"{viewer.name}:{key if short else sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:48]}"


def _refusal(viewer: Viewer, workflow: str, what: str) -> Exception:
    if viewer.may("see", workflow):
        return NotAllowed(f"You may not {what}: ask an operator or an admin of the workflow")
    return NotFound(f"There is no workflow named {workflow!r}")


def _create_run(viewer: Viewer, description: Description, message: Json, start_key: str | None) -> Run:
    now = timezone.now()
    run_id = ids.new_run_id()
    return Run.objects.create(
        id=run_id,
        family=run_id,
        workflow=description.workflow,
        version=description.version,
        engine=description.engine,
        title=description.title[:300],
        input=message,
        created_by=viewer.user if isinstance(viewer.user, User) else None,
        created=now,
        updated=now,
        start_key=start_key,
    )


def _same_start(run: Run, workflow: str, message: Json) -> Run:
    if run.workflow != workflow or run.input != message:
        raise KeyReused("This idempotency key was used for another start: use a new key")
    return run


def remember_version(description: Description) -> None:
    """Keep the graph, so that runs begun under it can be drawn and compared later."""
    WorkflowVersion.objects.get_or_create(
        workflow=description.workflow,
        version=description.version,
        defaults={"description": description.model_dump(mode="json")},
    )

"""The API of actions on a run: cancel, pause, resume, retry, signal, migrate to a changed graph."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status

from checkpoints.models import Run
from wfdash import actions, queries
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.bodies import Body
from wfdash.api.schemas import Created

router = Router()


class SignalIn(Body):
    """A message to a run."""

    name: str
    value: Any = None


class SignalOut(Schema):
    """A signal that was sent. ``request``: what it answered; null while it is stored for a later step."""

    id: str
    name: str
    request: str | None


class WaitOut(Schema):
    """A step that waits for a signal."""

    request: str
    name: str
    step: str
    since: datetime
    due: datetime | None
    answer_schema: dict[str, Any]


class KeptOut(Schema):
    """A signal that no step has received yet."""

    id: str
    name: str
    by: str
    at: datetime
    value: Any = None


class SignalsOut(Schema):
    """Signal waits and stored signals, oldest first."""

    waits: list[WaitOut]
    kept: list[KeptOut]


@router.post("/runs/{run_id}/cancel", response=Created)
def cancel_run(request: HttpRequest, run_id: str, after_step: bool = False) -> Any:
    """Cancel a run, at once; with ``after_step`` as soon as the running step has ended."""
    return _run_out(actions.cancel_run(viewer_of(request), run_id, after_step=after_step, key=key_of(request)))


@router.post("/runs/{run_id}/pause", response=Created)
def pause_run(request: HttpRequest, run_id: str, now: bool = False) -> Any:
    """Pause a run until someone resumes it: once the running steps have ended, or ``now``, which interrupts them."""
    return _run_out(actions.pause_run(viewer_of(request), run_id, now=now, key=key_of(request)))


@router.post("/runs/{run_id}/resume", response=Created)
def resume_run(request: HttpRequest, run_id: str, force: bool = False) -> Any:
    """Resume a paused run. It waits for functions of it that still run elsewhere, unless ``force`` is given."""
    return _run_out(actions.resume_run(viewer_of(request), run_id, force=force, key=key_of(request)))


@router.post("/runs/{run_id}/retry", response=Created)
def retry_run(request: HttpRequest, run_id: str) -> Any:
    """Retry a failed run from its latest checkpoint."""
    return _run_out(actions.retry_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/migrate", response=Created)
def migrate_run(request: HttpRequest, run_id: str) -> Any:
    """Migrate a run to the loaded graph as its author declared. 409 with the reason if that is not possible."""
    return _run_out(actions.migrate_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/override", response=Created)
def override_run(request: HttpRequest, run_id: str) -> Any:
    """Resume a run under the loaded graph without a declared migration. 409 with the reason if it is not valid
    there.
    """
    return _run_out(actions.override_run(viewer_of(request), run_id, key=key_of(request)))


@router.get("/runs/{run_id}/signals", response=SignalsOut)
def list_signals(request: HttpRequest, run_id: str) -> Any:
    """Return the signals the run waits for, with the schema of each, and those it has stored."""
    return queries.signals(viewer_of(request), run_id)


@router.post("/runs/{run_id}/signals", response={201: SignalOut})
def send_signal(request: HttpRequest, run_id: str, given: SignalIn) -> Any:
    """Send a signal. 422 with errors per field when it does not match the step that waits for it."""
    sent = actions.send_signal(viewer_of(request), run_id, given.name, given.value, key=key_of(request))
    return Status(201, {"id": sent.pk, "name": sent.name, "request": sent.taken})


def _run_out(run: Run) -> dict[str, Any]:
    return {"id": run.pk, "n": run.n}

"""The API of actions on a run: cancel, pause, resume, retry, follow up."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from checkpoints.models import Run
from wfdash.actions.checkpoints import restore
from wfdash.actions.runs import cancellation, lifecycle
from wfdash.actions.runs import follow_up as follow_ups
from wfdash.api.auth import key_of, viewer_of
from wfdash.records.base import Created
from wfdash.records.runs import SendFollowUp
from wfdash.telemetry import tracing

router = Router()


@router.post("/runs/{run_id}/cancel", response=Created)
def cancel_run(request: HttpRequest, run_id: str, after_step: bool = False) -> Any:
    """Cancel a run, at once; with ``after_step`` as soon as the running step has ended."""
    return run_id_of(cancellation.cancel_run(viewer_of(request), run_id, after_step=after_step, key=key_of(request)))


@router.post("/runs/{run_id}/pause", response=Created)
def pause_run(request: HttpRequest, run_id: str, now: bool = False) -> Any:
    """Pause a run until someone resumes it: once the running steps have ended, or ``now``, which interrupts them."""
    return run_id_of(cancellation.pause_run(viewer_of(request), run_id, now=now, key=key_of(request)))


@router.post("/runs/{run_id}/resume", response=Created)
def resume_run(request: HttpRequest, run_id: str, force: bool = False) -> Any:
    """Resume a paused run, or hand the own run of a program (``driver``) over to workers.

    It waits for functions of it that still run elsewhere, unless ``force`` is given.
    """
    return run_id_of(cancellation.resume_run(viewer_of(request), run_id, force=force, key=key_of(request)))


@router.post("/runs/{run_id}/retry", response=Created)
def retry_run(request: HttpRequest, run_id: str) -> Any:
    """Retry a failed run from its latest checkpoint."""
    return run_id_of(lifecycle.retry_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/answer-again", response=Created)
def answer_again(request: HttpRequest, run_id: str) -> Any:
    """Ask again what a run was answered last, if the step that asked has failed: it is restored to that question."""
    head = restore.answer_again(viewer_of(request), run_id, key=key_of(request))
    return {"id": head.run_id, "n": head.n}


@router.post("/runs/{run_id}/follow-up", response={201: Created})
def follow_up(request: HttpRequest, run_id: str, given: SendFollowUp) -> Any:
    """Follow up on a completed run: start a new run that continues from its end with this message.

    422 with errors per field when the message does not match ``follow_up_schema``; 409 while the run has not completed,
    and once another run follows it.
    """
    run = follow_ups.follow_up(viewer_of(request), run_id, given.message, key=key_of(request))
    tracing.started(run.pk, run.workflow, request.headers)
    return Status(201, run_id_of(run))


def run_id_of(run: Run) -> dict[str, Any]:
    """Return the answer that names a run."""
    return {"id": run.pk, "n": run.n}

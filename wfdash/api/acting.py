"""The API of what is done to a run: cancel, pause, resume, retry, carry over to a changed graph."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from checkpoints.models import Run
from wfdash import desk
from wfdash.api.asker import key_of, viewer_of
from wfdash.api.schemas import Created

router = Router()


@router.post("/runs/{run_id}/cancel", response=Created)
def cancel_run(request: HttpRequest, run_id: str, after_step: bool = False) -> Any:
    """End a run for good, at once; with ``after_step`` as soon as the step that runs has ended."""
    return _moved(desk.cancel_run(viewer_of(request), run_id, after_step=after_step, key=key_of(request)))


@router.post("/runs/{run_id}/pause", response=Created)
def pause_run(request: HttpRequest, run_id: str) -> Any:
    """Hold a run until somebody resumes it."""
    return _moved(desk.pause_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/resume", response=Created)
def resume_run(request: HttpRequest, run_id: str) -> Any:
    """Let a paused run go on."""
    return _moved(desk.resume_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/retry", response=Created)
def retry_run(request: HttpRequest, run_id: str) -> Any:
    """Try a failed run again from its latest checkpoint."""
    return _moved(desk.retry_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/migrate", response=Created)
def migrate_run(request: HttpRequest, run_id: str) -> Any:
    """Carry a run over to the loaded graph by what its author declared. 409 with the reason if that cannot be."""
    return _moved(desk.migrate_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/override", response=Created)
def override_run(request: HttpRequest, run_id: str) -> Any:
    """Let a run go on under the loaded graph as it stands. 409 with the reason if it is not valid there."""
    return _moved(desk.override_run(viewer_of(request), run_id, key=key_of(request)))


def _moved(run: Run) -> dict[str, Any]:
    return {"id": run.pk, "n": run.n}

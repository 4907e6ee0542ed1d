"""The API of a run's signals."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from wfdash.actions.runs import signals
from wfdash.api.auth import key_of, viewer_of
from wfdash.queries.runs.signals import read_signals
from wfdash.records.runs import SendSignal, SentSignal, SignalList

router = Router()


@router.get("/runs/{run_id}/signals", response=SignalList)
def list_signals(request: HttpRequest, run_id: str) -> Any:
    """Return the signals the run waits for, with the schema of each, and those it has stored."""
    return read_signals(viewer_of(request), run_id)


@router.post("/runs/{run_id}/signals", response={201: SentSignal})
def send_signal(request: HttpRequest, run_id: str, given: SendSignal) -> Any:
    """Send a signal. 422 with errors per field when it does not match the step that waits for it."""
    sent = signals.send_signal(viewer_of(request), run_id, given.name, given.value, key=key_of(request))
    return Status(201, {"id": sent.pk, "name": sent.name, "request": sent.taken})

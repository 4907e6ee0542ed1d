"""What signals a run waits for, and which it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from checkpoints.models import OPEN, HumanRequest, Run, Signal
from checkpoints.records import Json
from wfdash.access import Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.workflow.signals import KIND, name_in

MOST = 100


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A step that waits for a signal. ``before``: what it received the last time, before the run was restored."""

    request: str
    name: str
    step: str
    since: datetime
    due: datetime | None
    answer_schema: dict[str, Json]
    before: Json = None


@dataclass(frozen=True, kw_only=True)
class KeptSignal:
    """A signal that no step has received yet. ``value`` is None for those who may not inspect it."""

    id: str
    name: str
    by: str
    at: datetime
    value: Json = None


@dataclass(frozen=True, kw_only=True)
class Signals:
    """Both, oldest first."""

    waits: tuple[Wait, ...]
    kept: tuple[KeptSignal, ...]


def signals(viewer: Viewer, run_id: str) -> Signals:
    """Return them for those who may send some (three queries): ``NotFound``, ``NotAllowed``."""
    run = _find(viewer, run_id)
    open_ = HumanRequest.objects.filter(OPEN, run_id=run_id, kind=KIND).order_by("created", "id")
    kept = Signal.objects.filter(run_id=run_id, taken__isnull=True).select_related("by").order_by("at", "id")
    inspect = viewer.may("inspect", run.workflow)
    return Signals(waits=tuple(map(_wait, open_[:MOST])), kept=tuple(_kept(row, inspect) for row in kept[:MOST]))


def wait(viewer: Viewer, run_id: str, request_id: str) -> Wait | None:
    """Return one of them by its request, even if it has received its signal meanwhile (two queries)."""
    _find(viewer, run_id)
    row = HumanRequest.objects.filter(run_id=run_id, kind=KIND, pk=request_id).first()
    return _wait(row) if row else None


def _find(viewer: Viewer, run_id: str) -> Run:
    run = Run.objects.filter(viewer.scope("see"), pk=run_id).only("workflow").first()
    if run is None:
        raise NotFound("There is no such run, or it is not yours to see")
    if not viewer.may("operate", run.workflow) and not viewer.may("start", run.workflow):
        raise NotAllowed()
    return run


def _wait(row: HumanRequest) -> Wait:
    return Wait(
        request=row.pk,
        name=name_in(row.key),
        step=row.step,
        since=row.created,
        due=row.due,
        answer_schema=row.answer_schema,
        before=(row.suggestion or {}).get("value"),
    )


def _kept(row: Signal, inspect: bool) -> KeptSignal:
    by = row.by.get_username() if row.by else ""
    return KeptSignal(id=row.pk, name=row.name, by=by, at=row.at, value=row.value if inspect else None)

"""Signals a run waits for, and those it has stored."""

from __future__ import annotations

from checkpoints.models import FOR_PEOPLE, OPEN, HumanRequest, Run, Signal
from checkpoints.records import Json
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import NotAllowed, NotFound
from wfdash.engines.catalog import secrets_of
from wfdash.queries.timemachine import secrets_in
from wfdash.questions.choices import name_in
from wfdash.records.runs import AwaitedSignal, KeptSignal, SignalList
from wfdash.values.schemas.secrets import masked, without

MAX_SHOWN = 100


class SignalWait(AwaitedSignal):
    """A step that waits for a signal. ``before``: what it received the last time, before the run was restored."""

    before: Json = None


class RunSignals(SignalList):
    """Signal waits and stored signals, oldest first, as pages show them."""

    waits: tuple[SignalWait, ...]


def read_signals(viewer: Viewer, run_id: str) -> RunSignals:
    """Return a run's signals, for people who may send some (three queries). ``NotFound``, ``NotAllowed``."""
    run = _find(viewer, run_id)
    open_ = HumanRequest.objects.filter(OPEN & ~FOR_PEOPLE, run_id=run_id).order_by("created", "id")
    kept = Signal.objects.filter(run_id=run_id, taken__isnull=True).select_related("by").order_by("at", "id")
    inspect = viewer.may("inspect", run.workflow)
    waits, names = [_wait(row) for row in open_[:MAX_SHOWN]], secrets_of(run.workflow)
    return RunSignals.trusted(waits=tuple(waits), kept=tuple(_pending(row, names, inspect) for row in kept[:MAX_SHOWN]))


def signal_wait(viewer: Viewer, run_id: str, request_id: str) -> SignalWait | None:
    """Return one wait by its request, even if it has received its signal in the meantime (two queries)."""
    _find(viewer, run_id)
    row = HumanRequest.objects.filter(~FOR_PEOPLE, run_id=run_id, pk=request_id).first()
    return _wait(row) if row else None


def _find(viewer: Viewer, run_id: str) -> Run:
    run = Run.objects.filter(viewer.scope("see"), pk=run_id).only("workflow").first()
    if run is None:
        raise NotFound("Run not found, or you do not have access")
    if not viewer.may("operate", run.workflow) and not viewer.may("start", run.workflow):
        raise NotAllowed()
    return run


def _wait(row: HumanRequest) -> SignalWait:
    return SignalWait.trusted(
        request=row.pk,
        name=name_in(row.key),
        step=row.step,
        since=row.created,
        due=row.due,
        answer_schema=row.answer_schema,
        before=without((row.suggestion or {}).get("value"), secrets_in(row)),
    )


def _pending(row: Signal, names: frozenset[str], inspect: bool) -> KeptSignal:
    by = row.by.get_username() if row.by else ""
    return KeptSignal.trusted(
        id=row.pk, name=row.name, by=by, at=row.at, value=masked(row.value, names) if inspect else None
    )

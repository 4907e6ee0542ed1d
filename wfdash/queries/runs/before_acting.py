"""What is read before a person acts on a run: its head, its input, open work, its thread, and signals it waits for."""

from __future__ import annotations

from django.db.models import F

from checkpoints.errors import Unreadable
from checkpoints.models import FOR_PEOPLE, OPEN, Checkpoint, HumanRequest, Run, Signal
from checkpoints.records import Json, frozen
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import NotAllowed, NotFound
from wfdash.engines.catalog import secrets_of
from wfdash.queries import timemachine
from wfdash.queries.requests.inbox import RequestRow, requests_of
from wfdash.queries.runs.listing import RunRow, run_rows
from wfdash.queries.timemachine import secrets_in
from wfdash.questions.choices import name_in
from wfdash.records.runs import AwaitedSignal, KeptSignal, SignalList
from wfdash.values.schemas.secrets import masked, without

MOST_OF_THREAD = 20
"""Runs of a thread that the page of one of them lists."""


@frozen
class OpenWork:
    """What is open in a run that is about to be ended."""

    steps: tuple[str, ...]
    """Steps that a worker is running."""
    calls: tuple[str, ...]
    """``once`` calls whose outcome is unknown."""
    asks: tuple[RequestRow, ...]
    """Requests that people could still answer."""
    driven: bool


def operated_run(viewer: Viewer, run_id: str) -> Run:
    """Return a run, for operators (one query). ``NotFound``, ``NotAllowed``."""
    run = Run.objects.filter(viewer.scope("see"), pk=run_id).first()
    if run is None:
        raise NotFound("Run not found, or you do not have access")
    if not viewer.may("operate", run.workflow):
        raise NotAllowed()
    return run


def read_open_work(viewer: Viewer, run_id: str) -> OpenWork:
    """Return what is open in a run, for operators. ``NotFound``, ``NotAllowed``."""
    run = operated_run(viewer, run_id)
    found = timemachine.of_run(run)
    asks = tuple(row for row in requests_of(viewer, run_id) if not row.answered and not row.closed_as)
    return OpenWork(steps=found.steps, calls=found.calls, asks=asks, driven=timemachine.is_driven(run))


def head_of(run_id: str) -> str:
    """Return the id of the checkpoint a run continues from, empty if it has none (one query)."""
    return Checkpoint.objects.filter(run_id=run_id, n=F("run__n")).values_list("id", flat=True).first() or ""


def last_pause(run_id: str) -> str:
    """Return the id of the checkpoint at which a failed run can be answered again; empty: there is none to read."""
    try:
        found = timemachine.last_pause(Run.objects.get(pk=run_id))
    except Unreadable:
        return ""
    return found.pk if found is not None else ""


def input_of(viewer: Viewer, run_id: str) -> tuple[str, Json]:
    """Return a run's workflow and its input, to start a similar one (one query).

    What the input's schema calls a secret (format ``password``, or ``writeOnly``) is left out. ``NotFound`` for people
    who may not inspect it, and for a follow-up: its message starts no other run.
    """
    begun = Run.objects.filter(viewer.scope("inspect"), pk=run_id, follows=None)
    run = begun.only("workflow", "input").first()
    if run is None:
        raise NotFound("Run not found, or you cannot view its input")
    return run.workflow, without_secrets(run.workflow, run.input)


def without_secrets(workflow: str, value: Json) -> Json:
    """Return an input without the secrets of the workflow's schema, if the workflow is loaded."""
    return without(value, secrets_of(workflow))


@frozen
class RunContents:
    """What is stored of a run, and would be deleted with it."""

    checkpoints: int
    requests: int
    events: int
    forks: int
    """Runs that were forked from it and stay as they are."""


def contents_of(viewer: Viewer, run_id: str) -> RunContents:
    """Return what is stored of a run, for operators. ``NotFound``, ``NotAllowed``."""
    run = operated_run(viewer, run_id)
    own = Checkpoint.objects.filter(run=run)
    return RunContents(
        checkpoints=own.count(),
        requests=HumanRequest.objects.filter(run=run).count(),
        events=run.seq,
        forks=Run.objects.filter(family=run.family, forked_from__in=own.values("pk")).count(),
    )


def thread_of(viewer: Viewer, run: RunRow) -> tuple[tuple[RunRow, ...], bool]:
    """Return the newest runs of a run's thread, oldest first, and whether there are earlier ones (four queries).

    None where no run follows another.
    """
    if run.thread is None:
        return (), False
    newest = Run.objects.filter(viewer.scope("see"), thread=run.thread).order_by("-created", "-id")
    ids = list(newest.values_list("pk", flat=True)[: MOST_OF_THREAD + 1])
    return run_rows(viewer, reversed(ids[:MOST_OF_THREAD])), len(ids) > MOST_OF_THREAD


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

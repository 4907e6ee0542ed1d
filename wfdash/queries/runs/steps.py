"""One step of a run: its activations, and of one of them input, output, attempts, logs, calls, requests.

It is read from events and checkpoints only. An input is in the event of the step's start where the engine says it
there, else in the checkpoint that was written when the activation started, as long as that is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import Q
from django.utils import timezone

from checkpoints.database.runs import read_row
from checkpoints.errors import CheckpointsError
from checkpoints.events import EventKind
from checkpoints.ids import RunId
from checkpoints.models import Checkpoint, Effect, HumanRequest
from checkpoints.models import Event as Row
from checkpoints.records import Event, Json, JsonObject, frozen
from wfdash.access.viewer import Viewer
from wfdash.domain.search_attributes import folded
from wfdash.engines import catalog
from wfdash.queries.history import event_of, workflow_of
from wfdash.queries.requests.inbox import RequestRow, request_rows
from wfdash.queries.step_states import OPEN, STOPPED, StepTransition, step_transitions
from wfdash.queries.timemachine import NotShown, secrets_of, unmasked_of
from wfdash.queries.unreadable import data_of, document
from wfdash.records.checkpoints import CallInProgress
from wfdash.records.runs import ActivationRecord
from wfdash.values.schemas.secrets import masked

ACTIVATIONS_PER_PAGE = 50
MOST_SEARCHED = 2000
"""Activations among which a label is looked for, the first of a step."""
MOST_EVENTS = 500
"""Events of one activation that are read; its logs alone may be many."""
REPORTED = frozenset({EventKind.PROGRESS, EventKind.CUSTOM})
ENDED = frozenset({"done", "failed"})


class StepActivation(ActivationRecord):
    """One execution of a step (of a map: of one item), retries included."""

    spent: timedelta = timedelta()
    since: datetime | None = None
    """When its present state began, while its duration grows."""

    @property
    def lasting(self) -> timedelta | None:
        """Return its duration up to now, as the graph shows it; None once it no longer grows."""
        return self.spent + max(timezone.now() - self.since, timedelta()) if self.since else None

    @property
    def name(self) -> str:
        """Return what it is called among those of its step."""
        return self.label or (f"No. {self.number}" if self.item is None else f"Item {self.item}")

    @property
    def lasted(self) -> timedelta | None:
        """Return its duration, waiting included, but not the time in which the run was idle; None while it is in
        progress.
        """
        return self.spent if self.ended or self.state == STOPPED else None


@frozen
class ActivationPage:
    """A page of a step's activations in the order in which they started. ``after``: the next page's, empty at the
    end.
    """

    rows: tuple[StepActivation, ...]
    total: int
    matching: int
    after: str = ""


@frozen
class Attempt:
    """One attempt of an activation. ``error``: why it failed; its traceback is for operators."""

    number: int
    began: datetime
    ended: datetime | None = None
    error: JsonObject | None = None
    again_at: datetime | None = None


class CallView(CallInProgress):
    """A recorded ``ctx.call``. ``state``: intended, done, failed or unknown."""

    at: datetime
    key: str
    result: Json = None


@frozen
class ActivationDetail:
    """Everything about one activation.

    ``input_from``: the number of the checkpoint that the input is from; 0 for that of an event, or if there is none:
    then ``input_note`` says why. Values are None and logs empty for people who may not inspect; secrets are masked.
    ``more``: not all events are read.
    """

    activation: StepActivation
    input: Json = None
    input_from: int = 0
    input_note: str = ""
    output: Json = None
    has_output: bool = False
    attempts: tuple[Attempt, ...] = ()
    logs: tuple[Event, ...] = ()
    calls: tuple[CallView, ...] = ()
    sleeps: tuple[tuple[datetime, datetime | None], ...] = ()
    """When each started, and until when."""
    requests: tuple[RequestRow, ...] = ()
    reports: tuple[Event, ...] = ()
    """Progress and the author's own events."""
    more: bool = False
    inspect: bool = field(default=False, compare=False)


def read_activations(
    viewer: Viewer,
    run_id: str,
    steps: Iterable[str],
    *,
    state: str = "",
    after: str = "",
    limit: int = ACTIVATIONS_PER_PAGE,
    find: str = "",
    driven: bool = True,
) -> ActivationPage:
    """Return a page of the activations of these steps (four queries, however many there are).

    ``state`` narrows them, and so does ``find``: the index of an item, or a part of its label.
    """
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    lives, names = dict[str, list[StepTransition]](), set(steps)
    for move in step_transitions(run_id, driven=driven):
        if move.step in names:
            lives.setdefault(move.activation, []).append(move)
    counted = Counter[str]()
    fit = []
    for life in lives.values():
        counted[life[-1].step] += 1
        if state in ("", life[-1].state):
            fit.append((life, counted[life[-1].step]))
    if find:
        items = _items([life[0] for life, _ in fit[:MOST_SEARCHED]], inspect)
        fit = [one for one in fit if (item := items.get(one[0][0].activation)) and item.matches(find)]
    begin = next((place for place, (life, _) in enumerate(fit, 1) if life[0].activation == after), 0)
    shown = fit[begin : begin + limit]
    items = _items([life[0] for life, _ in shown], inspect)
    rows = tuple(_with_item(_activation(*one), items.get(one[0][0].activation)) for one in shown)
    more = rows[-1].id if len(fit) > begin + limit else ""
    return ActivationPage(rows=rows, total=len(lives), matching=len(fit), after=more)


def read_activation(viewer: Viewer, run_id: str, activation: str, *, driven: bool = True) -> ActivationDetail | None:
    """Return the details of one activation (nine queries at most, one more per fork and level of big content).

    None if there is no such one on the current branch.
    """
    workflow = workflow_of(viewer, run_id)
    moved = step_transitions(run_id, driven=driven)
    life = [move for move in moved if move.activation == activation]
    if not life:
        return None
    before = dict.fromkeys(move.activation for move in moved if move.step == life[-1].step)
    inspect, operate = viewer.may("inspect", workflow), viewer.may("operate", workflow)
    events, more = _events_of(life, activation)
    first = _with_item(
        _activation(life, 1 + list(before).index(activation)),
        next((_item_in(e.data, inspect) for e in events if "item" in e.data), None),
    )
    output = next((e for e in reversed(events) if e.kind == EventKind.STEP_FINISHED), None)
    given = input_of(life[0], activation, events, catalog.secrets_of(workflow)) if inspect else StepInput()
    names = given.secrets
    return ActivationDetail(
        activation=first,
        input=masked(given.value, names),
        input_from=given.source,
        input_note=given.note,
        output=masked(output.data.get("output"), names) if output and inspect else None,
        has_output=output is not None,
        attempts=tuple(_attempts(life, events, inspect, operate)),
        logs=tuple(event for event in events if event.kind == EventKind.LOG) if inspect else (),
        calls=tuple(_calls(events, inspect, names)),
        sleeps=tuple((e.at, _parse_time(e.data.get("until"))) for e in events if e.kind == EventKind.STEP_SLEEPING),
        requests=_requests(viewer, events),
        reports=tuple(event for event in events if event.kind in REPORTED) if inspect else (),
        more=more,
        inspect=inspect,
    )


def _activation(life: list[StepTransition], number: int) -> StepActivation:
    last = life[-1]
    return StepActivation.trusted(
        id=last.activation,
        step=last.step,
        state=last.state,
        began=life[0].at,
        ended=last.at if last.state in ENDED else None,
        attempts=1 + sum(move.state == "retrying" for move in life),
        number=number,
        since=last.at if last.state in OPEN else None,
        spent=sum((after.at - move.at for move, after in pairwise(life) if move.state in OPEN), timedelta()),
    )


@frozen
class _MapItem:
    """An item of a map: its index, and what it is called."""

    index: int
    label: str

    def matches(self, text: str) -> bool:
        """Return whether it is what someone looks for."""
        return text == str(self.index) or folded(text) in folded(self.label)


def _with_item(activation: StepActivation, item: _MapItem | None) -> StepActivation:
    return activation.model_copy(update={"item": item.index, "label": item.label}) if item else activation


def _item_in(data: JsonObject, inspect: bool) -> _MapItem | None:
    index = data.get("item")
    return (
        _MapItem(index=index, label=str(data.get("label") or "") if inspect else "") if isinstance(index, int) else None
    )


def _items(firsts: list[StepTransition], inspect: bool) -> dict[str, _MapItem]:
    """Return activation -> its item, of those inside a map (one query)."""
    by_run: dict[str, list[int]] = {}
    for move in firsts:
        by_run.setdefault(move.run, []).append(move.seq)
    within = Q(pk__in=[])
    for run, seqs in by_run.items():
        within |= Q(run_id=run, seq__in=seqs)
    found = [(data, _item_in(data, inspect)) for data in map(data_of, Row.objects.filter(within))]
    return {str(data.get("activation")): item for data, item in found if item is not None}


def _events_of(life: list[StepTransition], activation: str) -> tuple[list[Event], bool]:
    """Return the events of one activation in order, and whether there are more than these (one query)."""
    within = Q(pk__in=[])
    for run in dict.fromkeys(move.run for move in life):
        seqs = [move.seq for move in life if move.run == run]
        span = Q(run_id=run, seq__gte=min(seqs))
        within |= span & Q(seq__lte=max(seqs)) if run != life[-1].run or life[-1].state in ENDED else span
    rows = Row.objects.filter(within, data__activation=activation)
    found = [event_of(row, inspect=True, operate=True) for row in rows.order_by("at", "seq")[: MOST_EVENTS + 1]]
    return found[:MOST_EVENTS], len(found) > MOST_EVENTS


def _attempts(life: list[StepTransition], events: list[Event], inspect: bool, operate: bool) -> Iterable[Attempt]:
    """Return the attempts: one ends with the activation, or when it failed; the next starts when its delay is over."""
    failures = {(event.run, event.seq): event.data for event in events if event.kind == EventKind.STEP_FAILED}
    number, began = 1, life[0].at
    failed: Attempt | None = None
    for move in life:
        if move.state == "failed":
            error = _error(failures.get((RunId(move.run), move.seq)), inspect, operate)
            failed = Attempt(number=number, began=began, ended=move.at, error=error)
        elif move.state == "retrying" and failed:
            yield replace(failed, again_at=move.until)
            number, began, failed = number + 1, move.until or move.at, None
        elif failed:
            yield failed
            number, began, failed = number + 1, move.at, None
    last = life[-1]
    if failed:
        yield failed
    elif last.state != "retrying":
        yield Attempt(number=number, began=began, ended=last.at if last.state == "done" else None)


def _error(data: JsonObject | None, inspect: bool, operate: bool) -> JsonObject:
    error: Any = (data or {}).get("error") or {}
    hidden = set() if operate else {"traceback"} if inspect else {"traceback", "message"}
    return {name: value for name, value in error.items() if name not in hidden}


def _calls(events: list[Event], inspect: bool, names: frozenset[str]) -> Iterable[CallView]:
    """Return the recorded calls in the order in which they started, each once with its current state (one query)."""
    keys = dict.fromkeys(str(e.data.get("key")) for e in events if e.kind.startswith("call."))
    runs = {str(event.run) for event in events}
    rows = Effect.objects.filter(run_id__in=runs, key__in=list(keys)).order_by("id") if keys else ()
    last = {row.key: row for row in rows}
    for key in keys:
        if row := last.get(key):
            result = masked(document(row, "result"), names) if inspect else None
            yield CallView.trusted(name=row.name, once=row.once, state=row.state, at=row.at, key=key, result=result)


def _requests(viewer: Viewer, events: list[Event]) -> tuple[RequestRow, ...]:
    """Return its requests, oldest first (up to three queries)."""
    keys = {str(event.data.get("key")) for event in events if event.kind == EventKind.REQUEST_OPENED}
    runs = {str(event.run) for event in events}
    rows = HumanRequest.objects.filter(viewer.scope("see"), run_id__in=runs, key__in=keys).order_by("created", "id")
    return request_rows(viewer, list(rows.values_list("id", flat=True)[:ACTIVATIONS_PER_PAGE])) if keys else ()


def _parse_time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


PRUNED = "Its checkpoint was pruned or cannot be read."
UNKNOWN = "Its checkpoint was pruned, or its engine does not keep it."


@frozen
class StepInput:
    """An activation's input, not masked. ``secrets``: the names of the fields to hide in it.

    ``source``: the number of its checkpoint, 0 for that of an event. ``note`` says why there is none.
    """

    value: Json = None
    source: int = 0
    note: str = ""
    secrets: frozenset[str] = frozenset()


def input_of(first: StepTransition, activation: str, events: Iterable[Event], secrets: frozenset[str]) -> StepInput:
    """Return the input that the event of an activation's start has, else that of the checkpoint written then.

    ``first``: the activation's start; ``events``: its events; ``secrets``: of its workflow.
    """
    started = next((event for event in events if event.kind == EventKind.STEP_STARTED), None)
    if started is not None and "input" in started.data:
        return StepInput(value=started.data["input"], secrets=secrets)
    rows = Checkpoint.objects.filter(run_id=first.run, seq__gte=first.seq)
    row = rows.select_related("run").order_by("n").first()
    try:
        record = read_row(row) if row is not None else None
        inputs = unmasked_of(record).inputs if record is not None else {}
    except CheckpointsError:
        record = None
    except NotShown as error:
        return StepInput(note=str(error), secrets=secrets)
    if record is None:
        return StepInput(note=PRUNED, secrets=secrets)
    secrets |= secrets_of(record)
    if activation not in inputs:
        return StepInput(note=UNKNOWN, secrets=secrets)
    return StepInput(value=inputs[activation], source=record.n, secrets=secrets)

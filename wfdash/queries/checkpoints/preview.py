"""The preview of restoring or forking a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints import records, rules
from checkpoints.database.rows import info_of, read_row
from checkpoints.errors import Damaged, Incompatible
from checkpoints.events import EventKind
from checkpoints.models import Answer, Checkpoint, Event, HumanRequest, Run
from checkpoints.records import CheckpointInfo, Json, Request
from wfdash.access.viewer import Viewer
from wfdash.contract import ActivationInfo, Edited, Edits, LookAhead
from wfdash.domain.invisible import visible
from wfdash.domain.json_patch import Operation
from wfdash.queries.checkpoints.checkpoint import find_row
from wfdash.queries.checkpoints.outlook import outlook_of
from wfdash.queries.checkpoints.side_effects import RecordedCalls, SideEffects, side_effects
from wfdash.queries.history.lineage import (
    CheckpointNode,
    EventRange,
    current_ranges,
    newest_below,
    nodes_of,
    range_filter,
    ranges_of,
)
from wfdash.queries.history.step_outcomes import StepTransition
from wfdash.queries.history.step_states import transitions_within
from wfdash.queries.requests.request import AnswerView
from wfdash.queries.unreadable import data_of
from wfdash.schemas.secrets import masked
from wfdash.timemachine import restore_point
from wfdash.timemachine.in_flight import driver_of
from wfdash.timemachine.prior_answers import refuse_edits
from wfdash.timemachine.shown import patch_of, unmasked_of

MOST = 100
"""Answers that are listed; all are counted."""
Transitions = dict[tuple[str, str], StepTransition]
DOES = {"waiting": "waits", "sleeping": "sleeps", "retrying": "retries"}


@dataclass(frozen=True, kw_only=True)
class ReopenedRequest:
    """A request that will be opened again. ``suggestion``: its last answer, if any; ``given``: the edits answer it."""

    request: Request
    suggestion: AnswerView | None
    given: bool = False

    @property
    def subject(self) -> str:
        """The card's headline."""
        return visible(rules.card_subject(self.request.card, self.request.step))


@dataclass(frozen=True, kw_only=True)
class RestartedSteps:
    """Activations of a step in progress at the checkpoint: they run again from their top.

    ``does``: runs | waits | sleeps | retries | queues (``edits.AGAIN``). ``afresh``: with an edited message.
    """

    step: str
    does: str
    until: datetime | None = None
    times: int = 1
    afresh: bool = False


@dataclass(frozen=True, kw_only=True)
class FinishedStep:
    """A step that had finished by the chosen checkpoint, and how often: its results are kept."""

    step: str
    times: int


@dataclass(frozen=True, kw_only=True)
class KeptAnswer:
    """A request answered before the chosen checkpoint: its answer is kept."""

    key: str
    subject: str
    by: str
    verdict: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class ClosedRequest:
    """An open request that will be closed. ``answered``: it has an answer that no step has consumed yet."""

    subject: str
    answered: bool


@dataclass(frozen=True, kw_only=True)
class EditedValue:
    """A value that the edits change: the state, or the message of a step."""

    step: str
    """Empty for the state."""
    before: Json
    after: Json


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Everything to read before confirming."""

    verb: str
    chosen: CheckpointInfo
    current: bool
    """The chosen one is already the head."""
    problem: str
    """Why it is not possible at all."""
    note: str
    """Why less is known than usual."""
    again: tuple[RestartedSteps, ...]
    """In progress at that point: they run first, replaying their recorded calls."""
    repeats: tuple[str, ...]
    """Steps that started after it on the last path taken from there: they run again if the run takes the same path."""
    stays: tuple[FinishedStep, ...]
    outside: SideEffects
    reopens: tuple[ReopenedRequest, ...]
    asks: tuple[str, ...]
    """Questions asked first: whether a call has happened."""
    closes: tuple[ClosedRequest, ...]
    kept: tuple[KeptAnswer, ...]
    kept_total: int
    forgotten: tuple[KeptAnswer, ...]
    """Answers to steps that restart: they may ask the same again."""
    worker: str
    """The worker that has the run now; restoring stops it at once."""
    mark: str
    """The fingerprint the confirmation is bound to."""
    words: tuple[str, ...] = ()
    """What the edits change, one sentence each."""
    changes: tuple[EditedValue, ...] = ()
    patch: tuple[Operation, ...] = ()
    """The edits as a JSON Patch of what is shown of the checkpoint: ``/state``, ``/inputs``."""

    @property
    def effects(self) -> tuple[RecordedCalls, ...]:
        """Calls that are not undone and may be made a second time."""
        return (*self.outside.repeated, *self.outside.unknown)


@dataclass(frozen=True, kw_only=True)
class _Content:
    """A checkpoint's content before and after edits; empty if it cannot be read."""

    record: records.Checkpoint | None
    edited: Edited | None
    problem: str = ""

    @property
    def requests(self) -> tuple[Request, ...]:
        if self.edited:
            return self.edited.requests
        return self.record.requests if self.record else ()


def preview(
    viewer: Viewer, run_id: str, checkpoint_id: str, *, verb: str = "restore", edits: Edits | None = None
) -> Preview:
    """Return the preview, for operators. ``NotFound``, or ``NotAllowed`` for others. Changes nothing.

    ``verb``: restore or fork. ``Invalid`` with errors per field for edits that are not valid or not permitted.
    """
    row = find_row(viewer, run_id, checkpoint_id, right="operate")
    run = Run.objects.only("id", "n", "phase", "epoch").get(pk=run_id)
    content = _edited_content(row, edits)
    keys = {request.key for request in content.requests}
    outlook, note = _look_ahead(content)
    nodes = nodes_of(run_id)
    led = ranges_of(run_id, nodes, checkpoint_id)
    then, now = _last_transitions(led), _last_transitions(_ranges_after(run_id, nodes, checkpoint_id))
    doing = outlook.doing if outlook else ()
    afresh = frozenset(edits.messages) if edits else frozenset[str]()
    before = _before(content, doing, edits)
    over = {key for one in before if one.activation in afresh for key in one.answers}
    if content.record and content.edited and edits:
        refuse_edits(viewer, run, row, content.record, content.edited, asked_again=over, reason=edits.reason)
    # A confirmation of a call's outcome is asked again, so its old answer is not kept.
    asked = keys | {request.key for request in outlook.asks} if outlook else keys
    answers = _answers(led, asked)
    kept = tuple(one for one in answers if one.key not in over)
    return Preview(
        verb=verb,
        chosen=info_of(row),
        current=run.n == row.n,
        problem=content.problem,
        note=note,
        again=_restarted(doing, afresh) if outlook else _restarted_by_events(then, content.requests),
        repeats=_repeated(then, now, doing if outlook else None),
        stays=_finished(then),
        outside=side_effects(run_id, nodes, checkpoint_id, before, afresh),
        reopens=_reopened(run_id, content.requests, edits),
        asks=tuple(visible(rules.card_subject(one.card, one.step)) for one in outlook.asks) if outlook else (),
        closes=_closed(run_id, keys) if verb == "restore" else (),
        kept=kept[:MOST],
        kept_total=len(kept),
        forgotten=tuple(one for one in answers if one.key in over)[:MOST],
        worker=driver_of(run_id),
        mark=restore_point.mark(run, row, verb),
        words=content.edited.words if content.edited else (),
        changes=_changes(content, before, doing, edits) if edits else (),
        patch=tuple(patch_of(content.record, content.edited)) if content.record and content.edited else (),
    )


def _edited_content(row: Checkpoint, edits: Edits | None) -> _Content:
    try:
        record = read_row(row)
        return _Content(record=record, edited=restore_point.edit_checkpoint(record, edits) if edits else None)
    except (Damaged, Incompatible) as error:
        return _Content(record=None, edited=None, problem=str(error))


def _look_ahead(content: _Content) -> tuple[LookAhead | None, str]:
    record = content.record
    if record is None:
        return None, ""
    if content.edited:
        record = record.model_copy(update={"body": content.edited.body, "requests": content.edited.requests})
    try:
        return outlook_of(record), ""
    except Incompatible as error:
        return None, str(error)


def _before(content: _Content, doing: tuple[ActivationInfo, ...], edits: Edits | None) -> tuple[ActivationInfo, ...]:
    """Return the activations in progress before edits, including those the edits drop."""
    if content.record is None or edits is None or not edits.messages:
        return doing
    return outlook_of(content.record).doing


def _ranges_after(run_id: str, nodes: list[CheckpointNode], checkpoint_id: str) -> list[EventRange]:
    """Return the event ranges up to the newest descendant of the checkpoint: the head, if that is one."""
    newest = newest_below(nodes, checkpoint_id)
    if newest is None or newest.id == nodes[-1].id:
        return current_ranges(run_id, nodes)
    return ranges_of(run_id, nodes, newest.id)


def _last_transitions(spans: list[EventRange]) -> Transitions:
    """Return (step, activation) -> its last transition."""
    return {(move.step, move.activation): move for move in transitions_within(spans)}


def _restarted(doing: Iterable[ActivationInfo], afresh: frozenset[str]) -> tuple[RestartedSteps, ...]:
    counted: Counter[tuple[str, str, bool]] = Counter()
    until: dict[tuple[str, str, bool], datetime | None] = {}
    for one in doing:
        if one.shown:
            place = (one.step, one.does, one.activation in afresh)
            counted[place] += 1
            times = [time for time in (until.get(place), one.until) if time]
            until[place] = min(times, default=None)
    return tuple(
        RestartedSteps(step=step, does=does, until=until[step, does, fresh], times=times, afresh=fresh)
        for (step, does, fresh), times in counted.items()
    )


def _restarted_by_events(then: Transitions, asked: Iterable[Request]) -> tuple[RestartedSteps, ...]:
    states = {(step, DOES.get(move.state, "runs")): 0 for (step, _), move in then.items() if move.state != "done"}
    known = {step for step, _ in states}
    found = [RestartedSteps(step=step, does=does) for step, does in states]
    found += [
        RestartedSteps(step=step, does="waits") for step in dict.fromkeys(r.step for r in asked) if step not in known
    ]
    return tuple(found)


def _repeated(then: Transitions, now: Transitions, doing: tuple[ActivationInfo, ...] | None) -> tuple[str, ...]:
    in_progress = {(one.step, one.activation) for one in doing or ()}
    over = {place for place, move in then.items() if move.state == "done"}
    return tuple(dict.fromkeys(step for step, act in now if (step, act) not in over | in_progress))


def _finished(then: Transitions) -> tuple[FinishedStep, ...]:
    counted = Counter(step for (step, _), move in then.items() if move.state == "done")
    return tuple(FinishedStep(step=step, times=times) for step, times in counted.items())


def _reopened(run_id: str, requests: tuple[Request, ...], edits: Edits | None) -> tuple[ReopenedRequest, ...]:
    earlier = restore_point.earlier_answers(run_id, [request.key for request in requests]) if requests else {}
    return tuple(
        ReopenedRequest(
            request=request,
            suggestion=_view(earlier[request.key]) if request.key in earlier else None,
            given=bool(edits and request.key in edits.answers),
        )
        for request in requests
    )


def _view(answer: Answer) -> AnswerView:
    by = answer.by.get_username() if answer.by else "a deadline"
    return AnswerView(by=by, at=answer.at, verdict=answer.verdict, value=restore_point.value_shown(answer))


def _closed(run_id: str, kept: set[Any]) -> tuple[ClosedRequest, ...]:
    rows = HumanRequest.objects.filter(run_id=run_id, closed__isnull=True).order_by("created", "id")
    gone = (row for row in rows if row.key not in kept)
    return tuple(ClosedRequest(subject=str(row), answered=row.answered is not None) for row in gone)


def _answers(spans: list[EventRange], pending: set[Any]) -> list[KeptAnswer]:
    """Return the answers that led to the checkpoint and were consumed by then, newest first."""
    rows = Event.objects.filter(range_filter(spans), kind=EventKind.REQUEST_ANSWERED)
    last = {str(data_of(row).get("key")): row for row in rows.order_by("at", "seq")}
    return [
        KeptAnswer(
            key=key,
            subject=str(data_of(row).get("subject") or row.step or ""),
            by=str(data_of(row).get("by") or ""),
            verdict=str(data_of(row).get("verdict") or ""),
            at=row.at,
        )
        for key, row in reversed(last.items())
        if key not in pending
    ]


def _changes(
    content: _Content, before: tuple[ActivationInfo, ...], after: tuple[ActivationInfo, ...], edits: Edits
) -> tuple[EditedValue, ...]:
    """Return the edited values, before and after."""
    if content.record is None or content.edited is None:
        return ()
    names, new = restore_point.secrets_of(content.record), {one.activation: one.message for one in after}
    pairs = [(one.step, one.message, new.get(one.activation)) for one in before if one.activation in edits.messages]
    edited = content.record.model_copy(update={"body": content.edited.body})
    pairs += [("", unmasked_of(content.record).state, unmasked_of(edited).state)]
    return tuple(
        EditedValue(step=step, before=masked(old, names), after=masked(now, names))
        for step, old, now in pairs
        if old != now
    )

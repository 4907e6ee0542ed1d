"""The preview of restoring or forking a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import groupby

from django.db.models import Count, Q

from checkpoints import records, rules
from checkpoints.database.runs import info_of, read_row
from checkpoints.errors import Damaged, Incompatible
from checkpoints.events import EventKind
from checkpoints.models import Answer, Checkpoint, Effect, Event, HumanRequest, Run
from checkpoints.records import Request, frozen
from wfdash.access.viewer import Viewer
from wfdash.contract import ActivationInfo, Edited, Edits, LookAhead
from wfdash.domain.errors import CodeElsewhere
from wfdash.domain.labels import visible
from wfdash.queries import timemachine
from wfdash.queries.checkpoints.checkpoint import find_row, outlook_of
from wfdash.queries.history import (
    CheckpointNode,
    EventRange,
    current_ranges,
    newest_below,
    nodes_of,
    origins_of,
    path_to,
    range_filter,
    ranges_of,
)
from wfdash.queries.step_states import StepTransition, transitions_within
from wfdash.queries.timemachine import driver_of, patch_of, refuse_edits, unmasked_of
from wfdash.queries.unreadable import data_of, document, masked_for
from wfdash.records.checkpoints import (
    CallRecord,
    CheckpointPreview,
    CheckpointRecord,
    ClosedRequestRecord,
    EarlierAnswer,
    EditedValueRecord,
    FinishedStepRecord,
    PendingRequest,
    ReopenedRequestRecord,
    RestartedStep,
    SideEffectsRecord,
)
from wfdash.records.requests import GivenAnswer
from wfdash.values.schemas.secrets import masked

NO_WORKER = "No worker with its code answers; this is based on the events"
MAX_LISTED_ANSWERS = 100
"""Answers that are listed; all are counted."""


@frozen
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

    @property
    def keys(self) -> set[str]:
        """The keys of its requests."""
        return {request.key for request in self.requests}


def read_preview(
    viewer: Viewer, run_id: str, checkpoint_id: str, *, verb: str = "restore", edits: Edits | None = None
) -> CheckpointPreview:
    """Return the preview, for operators. ``NotFound``, or ``NotAllowed`` for others. Changes nothing.

    ``verb``: restore or fork. ``Invalid`` with errors per field for edits that are not valid or not permitted.
    ``CodeElsewhere`` for edits that no worker with the code answers about.
    """
    row = find_row(viewer, run_id, checkpoint_id, right="operate")
    run = Run.objects.only("id", "n", "phase", "epoch").get(pk=run_id)
    content = _edited_content(row, edits)
    outlook, note = _look_ahead(content)
    nodes = nodes_of(run_id)
    led = ranges_of(run_id, nodes, checkpoint_id)
    chosen, message_due = info_of(row), rules.is_message_due(info_of(row))
    then, now = last_transitions(led), last_transitions(ranges_after(run_id, nodes, checkpoint_id))
    doing = outlook.doing if outlook else ()
    afresh = frozenset(edits.messages) if edits else frozenset[str]()
    before = _before(content, doing, edits)
    over = {key for one in before if one.activation in afresh for key in one.answers}
    if content.record and content.edited and edits:
        refuse_edits(viewer, run, row, content.record, content.edited, asked_again=over, reason=edits.reason)
    # A confirmation of a call's outcome is asked again, so its old answer is not kept.
    asked = content.keys | {request.key for request in outlook.asks} if outlook else content.keys
    answers = answers_before(led, asked)
    kept = tuple(one for one in answers if one.key not in over)
    return CheckpointPreview.trusted(
        verb=verb,
        chosen=CheckpointRecord.of(chosen),
        current=run.n == row.n,
        problem=content.problem,
        note=note,
        again=restarted(doing, afresh) if outlook else restarted_by_events(then, content.requests),
        repeats=repeated(then, now, doing if outlook else None),
        stays=finished(then),
        outside=side_effects(run_id, nodes, checkpoint_id, before, afresh),
        reopens=reopened(run_id, content.requests, edits),
        asks=tuple(visible(rules.card_subject(one.card, one.step)) for one in outlook.asks) if outlook else (),
        closes=closed(run_id, content.keys) if verb == "restore" else (),
        kept=kept[:MAX_LISTED_ANSWERS],
        kept_total=len(kept),
        forgotten=tuple(one for one in answers if one.key in over)[:MAX_LISTED_ANSWERS],
        worker=driver_of(run_id),
        mark=timemachine.mark(run, row, verb),
        message_due=message_due,
        message=masked_for(chosen.workflow, document(run, "input")) if message_due else None,
        words=content.edited.words if content.edited else (),
        changes=_changes(content, before, doing, edits) if edits else (),
        patch=tuple(patch_of(content.record, content.edited)) if content.record and content.edited else (),
    )


def _edited_content(row: Checkpoint, edits: Edits | None) -> _Content:
    try:
        record = read_row(row)
        return _Content(record=record, edited=timemachine.edit_checkpoint(record, edits) if edits else None)
    except CodeElsewhere:
        raise
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
    except CodeElsewhere:
        if content.edited:
            raise
        return None, NO_WORKER
    except Incompatible as error:
        return None, str(error)


def _before(content: _Content, doing: tuple[ActivationInfo, ...], edits: Edits | None) -> tuple[ActivationInfo, ...]:
    """Return the activations in progress before edits, including those the edits drop."""
    if content.record is None or edits is None or not edits.messages:
        return doing
    return outlook_of(content.record).doing


def _changes(
    content: _Content, before: tuple[ActivationInfo, ...], after: tuple[ActivationInfo, ...], edits: Edits
) -> tuple[EditedValueRecord, ...]:
    """Return the edited values, before and after."""
    if content.record is None or content.edited is None:
        return ()
    names, new = timemachine.secrets_of(content.record), {one.activation: one.message for one in after}
    pairs = [(one.step, one.message, new.get(one.activation)) for one in before if one.activation in edits.messages]
    edited = content.record.model_copy(update={"body": content.edited.body})
    pairs += [("", unmasked_of(content.record).state, unmasked_of(edited).state)]
    return tuple(
        EditedValueRecord.trusted(step=step, before=masked(old, names), after=masked(now, names))
        for step, old, now in pairs
        if old != now
    )


# Side effects on a branch of checkpoints: recorded calls that are done, and that would be repeated.

CallKey = tuple[str, str, bool]
"""Step, name, once."""


def side_effects(
    run_id: str,
    nodes: list[CheckpointNode],
    chosen: str,
    doing: Iterable[ActivationInfo] = (),
    afresh: Iterable[str] = (),
) -> SideEffectsRecord:
    """Return the side effects (five queries, three more per ancestor fork). ``nodes``: the run's tree.

    ``doing``: the activations in progress at the checkpoint; ``afresh``: those that restart without their journal.
    """
    newest = newest_below(nodes, chosen)
    lines = origins_of(run_id, nodes, chosen)
    before = {node.n for node in lines[0][1]}
    after = [node for node in path_to(nodes, newest.id if newest else chosen) if node.n not in before]
    head = max((node.n for node in nodes), default=0)
    late = Q(n__gt=head) if newest and newest.n == head else Q(pk__in=[])
    kept, lost = Counter[CallKey](), _dropped(doing, afresh)
    for run, path in lines:
        kept += _count_calls(Q(run_id=run) & _recorded_within(path), ("done",))
    repeated = _count_calls(Q(run_id=run_id) & (_recorded_within(after) | late), ("done",))
    unknown = _count_calls(Q(run_id=run_id) & (_recorded_within(after) | late), ("intended", "unknown"))
    there = _recorded_within(lines[0][1]) | _recorded_within(after) | late
    cut = Counter((one.step, call.name, call.once) for one in doing for call in one.calls if call.state == "again")
    asked = Counter((one.step, call.name, call.once) for one in doing for call in one.calls if call.state == "unknown")
    return SideEffectsRecord.trusted(
        kept=_recorded_calls(kept - lost),
        repeated=_recorded_calls((repeated | cut) + (lost & kept)),
        unknown=_recorded_calls(unknown | asked),
        elsewhere=_recorded_calls(_count_calls(Q(run_id=run_id) & ~there, ("done",))),
    )


def _dropped(doing: Iterable[ActivationInfo], afresh: Iterable[str]) -> Counter[CallKey]:
    over = set(afresh)
    calls = (one for one in doing if one.activation in over)
    return Counter((one.step, call.name, call.once) for one in calls for call in one.calls if call.state == "done")


def _recorded_within(path: Iterable[CheckpointNode]) -> Q:
    """Return the filter of calls recorded with these checkpoints: one condition per contiguous range."""
    numbers = sorted(node.n for node in path)
    either = Q(pk__in=[])
    for _, stretch in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        ns = [n for _, n in stretch]
        either |= Q(n__gte=ns[0], n__lte=ns[-1])
    return either


def _count_calls(where: Q, states: tuple[str, ...]) -> Counter[CallKey]:
    rows = (
        Effect.objects.filter(where, state__in=states).values_list("step", "name", "once").annotate(times=Count("id"))
    )
    return Counter({(step, name, once): times for step, name, once, times in rows.order_by()})


def _recorded_calls(counted: Counter[CallKey]) -> tuple[CallRecord, ...]:
    return tuple(
        CallRecord.trusted(step=step, name=name, once=once, times=times)
        for (step, name, once), times in sorted(counted.items())
        if times > 0
    )


# What restoring or forking a checkpoint means for steps: which restart, run again later, or keep their results.

Transitions = dict[tuple[str, str], StepTransition]
DOES = {"waiting": "waits", "sleeping": "sleeps", "retrying": "retries"}


def ranges_after(run_id: str, nodes: list[CheckpointNode], checkpoint_id: str) -> list[EventRange]:
    """Return the event ranges up to the newest descendant of the checkpoint: the head, if that is one."""
    newest = newest_below(nodes, checkpoint_id)
    if newest is None or newest.id == nodes[-1].id:
        return current_ranges(run_id, nodes)
    return ranges_of(run_id, nodes, newest.id)


def last_transitions(spans: list[EventRange]) -> Transitions:
    """Return (step, activation) -> its last transition."""
    return {(move.step, move.activation): move for move in transitions_within(spans)}


def restarted(doing: Iterable[ActivationInfo], afresh: frozenset[str]) -> tuple[RestartedStep, ...]:
    """Return what restarts, as the engine says, counted by step; ``afresh``: activations with an edited message."""
    counted: Counter[tuple[str, str, bool]] = Counter()
    until: dict[tuple[str, str, bool], datetime | None] = {}
    for one in doing:
        if one.shown:
            place = (one.step, one.does, one.activation in afresh)
            counted[place] += 1
            times = [time for time in (until.get(place), one.until) if time]
            until[place] = min(times, default=None)
    return tuple(
        RestartedStep.trusted(step=step, does=does, until=until[step, does, fresh], times=times, afresh=fresh)
        for (step, does, fresh), times in counted.items()
    )


def restarted_by_events(then: Transitions, asked: Iterable[Request]) -> tuple[RestartedStep, ...]:
    """Return what restarts as far as events say: steps without an end, and those that ask."""
    states = {(step, DOES.get(move.state, "runs")): 0 for (step, _), move in then.items() if move.state != "done"}
    known = {step for step, _ in states}
    found = [RestartedStep.trusted(step=step, does=does) for step, does in states]
    found += [
        RestartedStep.trusted(step=step, does="waits")
        for step in dict.fromkeys(r.step for r in asked)
        if step not in known
    ]
    return tuple(found)


def repeated(then: Transitions, now: Transitions, doing: tuple[ActivationInfo, ...] | None) -> tuple[str, ...]:
    """Return the steps that started after the checkpoint; ``doing``: what the engine says is in progress there."""
    in_progress = {(one.step, one.activation) for one in doing or ()}
    over = {place for place, move in then.items() if move.state == "done"}
    return tuple(dict.fromkeys(step for step, act in now if (step, act) not in over | in_progress))


def finished(then: Transitions) -> tuple[FinishedStepRecord, ...]:
    """Return the steps that had finished by the checkpoint."""
    counted = Counter(step for (step, _), move in then.items() if move.state == "done")
    return tuple(FinishedStepRecord.trusted(step=step, times=times) for step, times in counted.items())


# What restoring or forking a checkpoint means for requests: which open again or are closed, which answers stay.


class ReopenedRequest(ReopenedRequestRecord):
    """A request that will be opened again. ``suggestion``: its last answer, if any; ``given``: the edits answer it."""

    @property
    def subject(self) -> str:
        """The card's headline."""
        return visible(rules.card_subject(self.request.card, self.request.step))


def reopened(run_id: str, requests: tuple[Request, ...], edits: Edits | None) -> tuple[ReopenedRequest, ...]:
    """Return the requests of a checkpoint, each with the last answer it had in the run (one query)."""
    earlier = timemachine.earlier_answers(run_id, [request.key for request in requests]) if requests else {}
    return tuple(
        ReopenedRequest.trusted(
            request=PendingRequest.of(request),
            suggestion=_view(earlier[request.key]) if request.key in earlier else None,
            given=bool(edits and request.key in edits.answers),
        )
        for request in requests
    )


def _view(answer: Answer) -> GivenAnswer:
    by = answer.decider
    return GivenAnswer.trusted(by=by, at=answer.at, verdict=answer.verdict, value=timemachine.value_shown(answer))


def closed(run_id: str, kept: Collection[str]) -> tuple[ClosedRequestRecord, ...]:
    """Return the run's open requests but for those with these keys (one query)."""
    rows = HumanRequest.objects.filter(run_id=run_id, closed__isnull=True).order_by("created", "id")
    gone = (row for row in rows if row.key not in kept)
    return tuple(ClosedRequestRecord.trusted(subject=str(row), answered=row.answered is not None) for row in gone)


def answers_before(spans: list[EventRange], pending: Collection[str]) -> list[EarlierAnswer]:
    """Return the answers that led to the checkpoint and were consumed by then, newest first."""
    rows = Event.objects.filter(range_filter(spans), kind=EventKind.REQUEST_ANSWERED)
    last = {str(data_of(row).get("key")): row for row in rows.order_by("at", "seq")}
    return [
        EarlierAnswer.trusted(
            key=key,
            subject=str(data_of(row).get("subject") or row.step or ""),
            by=str(data_of(row).get("by") or ""),
            verdict=str(data_of(row).get("verdict") or ""),
            at=row.at,
        )
        for key, row in reversed(last.items())
        if key not in pending
    ]

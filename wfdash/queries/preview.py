"""What restoring or forking a checkpoint would do, before anybody does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models.functions import Now
from django.utils import timezone

from checkpoints import records
from checkpoints.errors import Damaged, Incompatible
from checkpoints.models import Answer, Checkpoint, Claim, Event, HumanRequest, Run
from checkpoints.records import CheckpointInfo, Json, Request
from checkpoints.rows import info_of, read_row
from wfdash import catalog, rewind
from wfdash.access import Viewer
from wfdash.edits import Doing, Edited, Edits, LooksAhead, Outlook
from wfdash.hidden import masked
from wfdash.patch import Operation
from wfdash.queries.board import Move, moves_within
from wfdash.queries.lineage import Node, Span, newest_below, nodes_of, span_filter, spans_now, spans_of
from wfdash.queries.outside import Calls, Outside, outside
from wfdash.queries.requests import AnswerView
from wfdash.queries.states import find_row

MOST = 100
"""Answers that are listed; all are counted."""
DOES = {"waiting": "waits", "sleeping": "sleeps", "retrying": "retries"}
UNTOLD = "The engine does not say what a checkpoint is about to do: this is what the events say"


@dataclass(frozen=True, kw_only=True)
class Reopened:
    """A request that will be asked again. ``suggestion``: its last answer, if any; ``given``: the edits answer it."""

    request: Request
    suggestion: AnswerView | None
    given: bool = False

    @property
    def subject(self) -> str:
        """The card's headline."""
        return rewind.subject_of(self.request)


@dataclass(frozen=True, kw_only=True)
class Again:
    """Activations of a step that are under way at the checkpoint: they run again from their top.

    ``does``: runs | waits | sleeps | retries | queues (``edits.AGAIN``). ``afresh``: with an edited message.
    """

    step: str
    does: str
    until: datetime | None = None
    times: int = 1
    afresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Stays:
    """A step that had finished by then, and how often: its results stay."""

    step: str
    times: int


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A request that was answered before the chosen checkpoint: the answer stays."""

    key: str
    subject: str
    by: str
    verdict: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Closed:
    """An open request that is asked no more. ``answered``: it has an answer that nothing has taken yet."""

    subject: str
    answered: bool


@dataclass(frozen=True, kw_only=True)
class Changed:
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
    """Why it cannot be done at all."""
    note: str
    """Why less is known than there could be."""
    again: tuple[Again, ...]
    """Under way at that point: they run first, by what they have on record."""
    repeats: tuple[str, ...]
    """Steps that were begun after it on the way last taken from there: they run again if the way is the same."""
    stays: tuple[Stays, ...]
    outside: Outside
    reopens: tuple[Reopened, ...]
    asks: tuple[str, ...]
    """What is asked first of all: whether a call has happened."""
    closes: tuple[Closed, ...]
    kept: tuple[Kept, ...]
    kept_total: int
    forgotten: tuple[Kept, ...]
    """Answers to steps that start over: they may ask the same again."""
    worker: str
    """Who drives the run now; restoring stops it at once."""
    mark: str
    """What the confirmation is bound to."""
    words: tuple[str, ...] = ()
    """What the edits change, one sentence each."""
    changes: tuple[Changed, ...] = ()
    patch: tuple[Operation, ...] = ()
    """The edits as a JSON Patch of the checkpoint's body."""

    @property
    def effects(self) -> tuple[Calls, ...]:
        """Calls that stay done and may be made a second time."""
        return (*self.outside.repeated, *self.outside.unknown)


@dataclass(frozen=True, kw_only=True)
class _Content:
    """What a checkpoint holds, before and after edits; nothing if it cannot be read."""

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
    """Return it for operators; ``NotFound``, or ``NotAllowed`` for those who may not operate. Changes nothing.

    ``verb``: restore or fork. ``Invalid`` with errors per field for edits that do not fit.
    """
    row = find_row(viewer, run_id, checkpoint_id, right="operate")
    run = Run.objects.only("id", "n", "phase", "epoch").get(pk=run_id)
    content = _content(row, edits)
    keys = {request.key for request in content.requests}
    outlook, note = _look_ahead(content)
    nodes = nodes_of(run_id)
    led = spans_of(run_id, nodes, checkpoint_id)
    then, now = _last(led), _last(_way_from(run_id, nodes, checkpoint_id))
    doing = outlook.doing if outlook else ()
    afresh = frozenset(edits.messages) if edits else frozenset[str]()
    before = _before(content, doing, edits)
    over = {key for one in before if one.activation in afresh for key in one.answers}
    # What is asked about a call once more was answered in vain.
    asked = keys | {request.key for request in outlook.asks} if outlook else keys
    answers = _answers(led, asked)
    kept = tuple(one for one in answers if one.key not in over)
    return Preview(
        verb=verb,
        chosen=info_of(row),
        current=run.n == row.n,
        problem=content.problem,
        note=note,
        again=_again(doing, afresh) if outlook else _again_by_events(then, content.requests),
        repeats=_repeats(then, now, doing if outlook else None),
        stays=_stays(then),
        outside=outside(run_id, nodes, checkpoint_id, before, afresh),
        reopens=_reopened(run_id, content.requests, edits),
        asks=tuple(rewind.subject_of(request) for request in outlook.asks) if outlook else (),
        closes=_closes(run_id, keys) if verb == "restore" else (),
        kept=kept[:MOST],
        kept_total=len(kept),
        forgotten=tuple(one for one in answers if one.key in over)[:MOST],
        worker=_worker(run_id),
        mark=rewind.mark(run, row, verb),
        words=content.edited.words if content.edited else (),
        changes=_changes(content, before, doing, edits) if edits else (),
        patch=tuple(rewind.patch_of(content.record, content.edited)) if content.record and content.edited else (),
    )


def outlook_of(record: records.Checkpoint) -> Outlook:
    """Return what a checkpoint is about to do, as its engine says; ``Incompatible`` with the reason if it does not."""
    entry = catalog.find(record.workflow)
    if entry is None:
        raise Incompatible(f"No code for workflow {record.workflow!r} is loaded here")
    if not isinstance(entry.engine, LooksAhead):
        raise Incompatible(UNTOLD)
    return entry.engine.look_ahead(entry.definition, record, timezone.now())


def _content(row: Checkpoint, edits: Edits | None) -> _Content:
    try:
        record = read_row(row)
        return _Content(record=record, edited=rewind.edit_checkpoint(record, edits) if edits else None)
    except (Damaged, Incompatible) as error:
        return _Content(record=None, edited=None, problem=str(error))


def _look_ahead(content: _Content) -> tuple[Outlook | None, str]:
    record = content.record
    if record is None:
        return None, ""
    if content.edited:
        record = record.model_copy(update={"body": content.edited.body, "requests": content.edited.requests})
    try:
        return outlook_of(record), ""
    except Incompatible as error:
        return None, str(error)


def _before(content: _Content, doing: tuple[Doing, ...], edits: Edits | None) -> tuple[Doing, ...]:
    """Return what was under way before edits: that knows what is forgotten."""
    if content.record is None or edits is None or not edits.messages:
        return doing
    return outlook_of(content.record).doing


def _way_from(run_id: str, nodes: list[Node], checkpoint_id: str) -> list[Span]:
    """Return what led to the end of the way last taken from the checkpoint: to the head, if that grew out of it."""
    newest = newest_below(nodes, checkpoint_id)
    if newest is None or newest.id == nodes[-1].id:
        return spans_now(run_id, nodes)
    return spans_of(run_id, nodes, newest.id)


def _last(spans: list[Span]) -> dict[tuple[str, str], Move]:
    """Return (step, activation) -> what was last heard of it."""
    return {(move.step, move.activation): move for move in moves_within(spans)}


def _again(doing: Iterable[Doing], afresh: frozenset[str]) -> tuple[Again, ...]:
    counted: Counter[tuple[str, str, bool]] = Counter()
    until: dict[tuple[str, str, bool], datetime | None] = {}
    for one in doing:
        if one.shown:
            place = (one.step, one.does, one.activation in afresh)
            counted[place] += 1
            times = [time for time in (until.get(place), one.until) if time]
            until[place] = min(times, default=None)
    return tuple(
        Again(step=step, does=does, until=until[step, does, fresh], times=times, afresh=fresh)
        for (step, does, fresh), times in counted.items()
    )


def _again_by_events(then: dict[tuple[str, str], Move], asked: Iterable[Request]) -> tuple[Again, ...]:
    states = {(step, DOES.get(move.state, "runs")): 0 for (step, _), move in then.items() if move.state != "done"}
    known = {step for step, _ in states}
    found = [Again(step=step, does=does) for step, does in states]
    found += [Again(step=step, does="waits") for step in dict.fromkeys(r.step for r in asked) if step not in known]
    return tuple(found)


def _repeats(
    then: dict[tuple[str, str], Move], now: dict[tuple[str, str], Move], doing: tuple[Doing, ...] | None
) -> tuple[str, ...]:
    under_way = {(one.step, one.activation) for one in doing or ()}
    over = {place for place, move in then.items() if move.state == "done"}
    return tuple(dict.fromkeys(step for step, act in now if (step, act) not in over | under_way))


def _stays(then: dict[tuple[str, str], Move]) -> tuple[Stays, ...]:
    counted = Counter(step for (step, _), move in then.items() if move.state == "done")
    return tuple(Stays(step=step, times=times) for step, times in counted.items())


def _reopened(run_id: str, requests: tuple[Request, ...], edits: Edits | None) -> tuple[Reopened, ...]:
    earlier = rewind.earlier_answers(run_id, [request.key for request in requests]) if requests else {}
    return tuple(
        Reopened(
            request=request,
            suggestion=_view(earlier[request.key]) if request.key in earlier else None,
            given=bool(edits and request.key in edits.answers),
        )
        for request in requests
    )


def _view(answer: Answer) -> AnswerView:
    by = answer.by.get_username() if answer.by else "a deadline"
    return AnswerView(by=by, at=answer.at, verdict=answer.verdict, value=answer.value)


def _closes(run_id: str, kept: set[Any]) -> tuple[Closed, ...]:
    rows = HumanRequest.objects.filter(run_id=run_id, closed__isnull=True).order_by("created", "id")
    gone = (row for row in rows if row.key not in kept)
    return tuple(Closed(subject=rewind.subject_of(row), answered=row.answered is not None) for row in gone)


def _answers(spans: list[Span], pending: set[Any]) -> list[Kept]:
    """Return the answers given on the way to the checkpoint and taken by then, newest first."""
    rows = Event.objects.filter(span_filter(spans), kind="request.answered")
    last = {str(row.data.get("key")): row for row in rows.order_by("at", "seq")}
    return [
        Kept(
            key=key,
            subject=str(row.data.get("subject") or row.step or ""),
            by=str(row.data.get("by") or ""),
            verdict=str(row.data.get("verdict") or ""),
            at=row.at,
        )
        for key, row in reversed(last.items())
        if key not in pending
    ]


def _changes(
    content: _Content, before: tuple[Doing, ...], after: tuple[Doing, ...], edits: Edits
) -> tuple[Changed, ...]:
    """Return the values that are changed, as they were and as they are written down now."""
    if content.record is None or content.edited is None:
        return ()
    names, new = rewind.secrets_of(content.record), {one.activation: one.message for one in after}
    pairs = [(one.step, one.message, new.get(one.activation)) for one in before if one.activation in edits.messages]
    pairs += [("", content.record.body.get("state"), content.edited.body.get("state"))]
    return tuple(
        Changed(step=step, before=masked(old, names), after=masked(now, names))
        for step, old, now in pairs
        if old != now
    )


def _worker(run_id: str) -> str:
    return Claim.objects.filter(run=run_id, expires__gt=Now()).values_list("worker", flat=True).first() or ""

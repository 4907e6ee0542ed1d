"""Stored data as frozen records: the only types in the storage ports.

Every record survives ``model_validate_json(record.model_dump_json())`` unchanged.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Self, TypeAlias, TypeVar, dataclass_transform

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId

T = TypeVar("T")
Json: TypeAlias = Any
"""A JSON value: None, bool, int, finite float, str, list of JSON, dict of str to JSON."""
JsonObject: TypeAlias = dict[str, Json]
Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Names with their texts, values with their labels, in order."""

FORMAT = 1
"""The checkpoint format this code writes. Older formats keep a reader and a test."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass whose fields are given by keyword: the values of this house.

    Modules that the command line begins with write it out: this one imports pydantic.
    """
    return dataclass(frozen=True, kw_only=True)(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_object(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Return a decorator for dataclasses with slots that never change: the type checker refuses it, nothing else does.

    Python's own ``frozen`` sets each field by a call, which costs two to five times as much for each object that is
    made. For objects of which every step makes some.
    """
    return dataclass(slots=True, kw_only=kw_only)


PARTS = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_set_fields, _set_given, _set_extra, _set_private = (vars(BaseModel)[name].__set__ for name in PARTS)


class Record(BaseModel):
    """A frozen, closed value object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, **values: Any) -> Self:
        """Return a record of values that are of the fields' types already: nothing is checked, converted or copied.

        For what this code itself has made or stored, at a quarter of the cost of a checked record. Every field without
        a default must be among ``values``, and no other name.
        """
        template, factories = _fields_of(cls)
        given = set(values)
        for name, make in factories:
            if name not in given:
                values[name] = make()
        record = cls.__new__(cls)
        _set_fields(record, template | values)
        _set_given(record, given)
        _set_extra(record, None)
        _set_private(record, None)
        return record


@cache
def _fields_of(kind: type[Record]) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    """Return a record's fields in their order with their defaults, and the factories of those that have one."""
    fields = kind.model_fields
    factories = ((name, field.default_factory) for name, field in fields.items() if field.default_factory is not None)
    return {name: None if field.is_required() else field.default for name, field in fields.items()}, tuple(factories)


class Reason(StrEnum):
    """Why a checkpoint was written."""

    START = "start"
    STEP = "step"
    PAUSE = "pause"
    CALL = "call"
    FAILURE = "failure"
    END = "end"
    LABEL = "label"
    RESTORE = "restore"
    FORK = "fork"
    FOLLOW_UP = "follow_up"
    MIGRATE = "migrate"
    EDIT = "edit"


class Phase(StrEnum):
    """What a run needs next. Its status is derived from this and its claim, only in ``status_of``."""

    READY = "ready"
    WAITING = "waiting"
    SLEEPING = "sleeping"
    RETRYING = "retrying"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @classmethod
    def stored(cls, text: str) -> Phase:
        """Return the phase that a row holds: ``failed`` for what no code writes, so that it hides no other run."""
        return next((one for one in cls if one == text), cls.FAILED)


class Status(StrEnum):
    """The status of a run as it is shown to people."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SLEEPING = "sleeping"
    RETRYING = "retrying"
    PAUSED = "paused"
    HELD = "held"
    """Paused automatically: its workflow has changed, and it waits for its old code or an operator's choice."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


ENDED = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED})


def status_of(phase: Phase, *, claimed: bool, claim_live: bool, acted_by: str) -> Status:
    """Return a run's status. The only place that derives it.

    ``claimed`` says a claim row exists, ``claim_live`` that it has not expired (by database time). ``acted_by`` is the
    person whose action set its phase, or empty.
    """
    if phase is Phase.PAUSED and not acted_by:
        return Status.HELD
    if phase is not Phase.READY:
        return Status(phase.value)
    if not claimed:
        return Status.QUEUED
    return Status.RUNNING if claim_live else Status.INTERRUPTED


SIGNAL = "signal"
"""The kind of a request that waits for a signal: no person is asked."""


class Request(Record):
    """A question to people, as the engine asks it.

    ``key`` is the engine's own name for the question: unique among the run's pending requests, the same after a resume.
    ``card`` is what the reviewer sees: ``subject``, ``body`` (markdown), ``proposal``, ``current``, ``evidence`` (list
    of ``{kind, title, value}``), ``consequence`` (action -> text), ``risk`` (low|medium|high), ``undo``, ``context``
    (dict), ``actions`` (list of ``{name, label, style, fields}``); absent: missing. ``answer_schema``: enforced.
    """

    key: RequestKey
    step: str
    kind: str = "form"
    card: JsonObject = Field(default_factory=dict)
    answer_schema: JsonObject = Field(default_factory=dict)
    by: tuple[str, ...] = ()
    """User or group names that may answer (``requester``: the person who started the run); empty: every reviewer."""
    not_by: tuple[str, ...] = ()
    """User or group names that may not; ``requester``: who started the run, edited it, or created its schedule."""
    due: datetime | None = None
    policy: JsonObject = Field(default_factory=dict)
    """How it is decided (how many, reminder, escalation, default answer), enforced by the actions."""
    alarm: datetime | None = None
    """The first time the policy names."""


class Answer(Record):
    """A person's reply to one request. ``by`` is a user name, None outside the dashboard.

    ``acting_for``: in whose name ``by`` gave it; None: their own. ``others``: who voted before them, and in whose name.
    """

    key: RequestKey
    value: Json = None
    by: str | None = None
    at: datetime | None = None
    acting_for: str | None = None
    others: tuple[str, ...] = ()

    @property
    def voters(self) -> tuple[str, ...]:
        """The names of everyone who has voted, or in whose name someone has: what a later ``not_by`` must name."""
        return tuple(sorted({name for name in (self.by, self.acting_for, *self.others) if name}))


class Effect(Record):
    """A recorded ``ctx.call``: an external call that was about to happen or has happened."""

    key: str
    step: str
    name: str
    once: bool = False
    state: str = "done"
    """intended | done | failed | unknown"""
    result: Json = None


class EventDraft(Record):
    """An event, before it has a number. ``at``: when it happened, within its run's bounds; None: at its commit."""

    kind: str
    step: str | None = None
    data: JsonObject = Field(default_factory=dict)
    at: AwareDatetime | None = None


class Event(EventDraft):
    """An event of a run. ``seq`` starts at 1 and has no gaps per run."""

    run: RunId
    seq: int
    at: datetime
    flaw: str = Field(default="", exclude_if=operator.not_)
    """Why its data cannot be read: it has none then. Empty for every other event."""


class CheckpointInfo(Record):
    """A checkpoint without its content: everything a history page needs."""

    id: CheckpointId
    run: RunId
    workflow: WorkflowId
    n: int
    """1, 2, 3 ... per run: the storage refuses a second checkpoint with the same n (``Conflict``)."""
    parent: CheckpointId | None = None
    version: str
    """The workflow's graph signature."""
    engine: str = "native"
    step: str | None = None
    reason: Reason = Reason.STEP
    label: str | None = None
    created: datetime
    format: int = FORMAT
    size: int = 0
    """Bytes of the canonical JSON of body and requests; set by the storage, 0 before."""
    clean: bool = True
    """False once it was found damaged or was quarantined."""
    flaw: str = ""
    """Why it is not clean; set by the storage."""
    waiting: int = 0
    """How many questions are pending here; set by the storage."""
    seq: int = 0
    """Sequence number of the last event committed together with it; set by the storage."""
    facts: JsonObject = Field(default_factory=dict)
    """Its owner's metadata for lists (cost, another system's id): at most 4,000 bytes of JSON."""


class Checkpoint(CheckpointInfo):
    """Everything needed to continue a run from this point. Plain JSON throughout.

    ``body`` belongs to the engine: ``{"state": {...}, "position": {...}}`` for the native one. ``requests`` are the
    questions that are pending here.
    """

    body: JsonObject
    requests: tuple[Request, ...] = ()

    def info(self) -> CheckpointInfo:
        """Return only the metadata."""
        return CheckpointInfo.trusted(**{name: getattr(self, name) for name in CheckpointInfo.model_fields})


def in_utc(at: datetime) -> datetime:
    """Return a time with its zone in UTC. ``ValueError`` for one that has no date there (year 1 or 9999)."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("give a time between the years 1 and 9999 UTC") from None


Moment: TypeAlias = Annotated[AwareDatetime, AfterValidator(in_utc)]


class CheckpointFilter(Record):
    """A filter of a list of checkpoints. A field that is None matches all. ``label``: the label it has, exactly."""

    step: str | None = None
    reason: Reason | None = None
    clean: bool | None = None
    has_request: bool | None = None
    """Whether questions are pending there."""
    labelled: bool | None = None
    label: str | None = None
    since: Moment | None = None
    """Created at or after this time."""
    until: Moment | None = None
    """Created before this time."""

    def admits(self, info: CheckpointInfo) -> bool:
        """Return whether a checkpoint matches."""
        wanted = (
            (self.step, info.step),
            (self.reason, info.reason),
            (self.clean, info.clean),
            (self.has_request, info.waiting > 0),
            (self.labelled, info.label is not None),
            (self.label, info.label),
        )
        early = self.since is not None and info.created < self.since
        late = self.until is not None and info.created >= self.until
        return not early and not late and all(want is None or want == has for want, has in wanted)


class ErrorInfo(Record):
    """An exception as a record. ``traceback`` is text, for operators only."""

    type: str
    message: str
    step: str | None = None
    traceback: str = ""
    retryable: bool = True


class Standing(Record):
    """The phase in which a run is left when its drive ends, with the data of that phase."""

    phase: Phase
    wake_at: datetime | None = None
    """For sleeping, retrying, or waiting with a timer: when to continue it."""
    output: Json = None
    error: ErrorInfo | None = None
    attempt: int = 0
    attempts: int = 0
    """For retrying: attempt n of m."""


class Commit(Record):
    """One durable state of a run: all of it is written in one transaction, or nothing."""

    run: RunId
    checkpoint: Checkpoint | None = None
    events: tuple[EventDraft, ...] = ()
    opened: tuple[Request, ...] = ()
    """Requests that appear with this checkpoint (pending in it, not in its parent)."""
    closed: tuple[RequestKey, ...] = ()
    """Requests whose answer the engine has taken, or that it withdrew."""
    answered: tuple[Answer, ...] = ()
    """Answers that the caller of ``run`` gave: recorded like a person's, before ``closed``.

    Where the request has that answer already, nothing changes; where it has another one, ``AlreadyAnswered`` and
    nothing is written. Of requests that have no row (without a journal) nothing is recorded.
    """
    restores: bool = False
    """It restores the run: all that is pending is closed as superseded, before ``opened``."""
    effects: tuple[Effect, ...] = ()
    standing: Standing | None = None
    """None while the drive continues; if set, the claim is released in the same transaction."""
    frozen: bool = False
    """Nothing in the checkpoint's body is ever changed in place: an object that was written before is unchanged."""


class RunFacts(Record):
    """What a worker needs to know of a run to continue it. ``n`` is 0 before its first checkpoint."""

    run: RunId
    workflow: WorkflowId
    version: str
    input: Json = None
    n: int = 0
    attempts: int = 0


class RunInfo(Record):
    """A run in a list. For the next page, pass the last one as ``before``. ``n``: of its newest checkpoint, else 0."""

    id: RunId
    workflow: WorkflowId
    """Empty until its first checkpoint, unless it was named before."""
    version: str
    engine: str
    phase: Phase
    n: int
    forked_from: CheckpointId | None = None
    created: datetime
    updated: datetime
    finished: datetime | None = None
    claimed: bool = False
    """Whether a worker has it now."""
    flaw: str = ""
    """Why its row cannot be read: its phase is failed then, and its times may be of 1970. Empty for every other run."""


class Claim(Record):
    """A worker's right to run a run: every write carries it and fails once it is gone or expired."""

    run: RunId
    token: str
    worker: str
    epoch: int
    expires: datetime
    ttl: float = 30.0
    """Seconds by which each commit extends it."""
    recovered: bool = False
    """True when it was taken over from a claim that had expired."""
    attempts: int = 0
    """How many times in a row the run was taken over without a checkpoint in between."""
    facts: RunFacts | None = None
    """What running it needs, where it was claimed with that."""

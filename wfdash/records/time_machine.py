"""A run's past: what it was after an event, what may be edited, what restoring or forking would do."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from wfdash.records.base import ApiRecord
from wfdash.records.checkpoints import CheckpointRecord, PendingRequest, StateCounts
from wfdash.records.requests import GivenAnswer
from wfdash.records.runs import EventRecord


class StepMove(ApiRecord):
    """A state that one execution of a step entered; ``seq``: with which event.

    ``until``: when a retry is due. ``skipped``: done without running, because its condition did not hold.
    """

    step: str
    activation: str
    state: Literal["running", "done", "failed", "retrying", "waiting", "sleeping", "stopped"]
    at: datetime
    seq: int
    until: datetime | None
    skipped: bool


class PastRequestRecord(ApiRecord):
    """A request that was open at that time. ``became``: answered, why it was closed, or empty: it is still open."""

    id: str
    step: str
    subject: str
    created: datetime
    became: str


class ReplayFacts(ApiRecord):
    """A run as it was after event ``seq``. ``last``: the newest event's number."""

    seq: int
    last: int
    board: dict[str, StateCounts]
    """Step -> how many of its executions were in which state."""
    requests: tuple[PastRequestRecord, ...]
    status: str
    """The kind of the last event about the run as a whole."""
    checkpoint: CheckpointRecord | None
    """The newest one that was written by then."""
    left: bool
    """The run has been restored since: this is not on the current branch."""
    earlier: int
    """The event before this at which something changed, 0 at the beginning."""
    later: int
    """The next one, 0 at the end."""


class ReplayRecord(ReplayFacts):
    """A run as it was after event ``seq``. ``last``: the newest event's number."""

    event: EventRecord
    events: tuple[EventRecord, ...]
    """The last ones up to then, oldest first."""
    moves: tuple[StepMove, ...]
    """How its steps came to be where they were, oldest first."""


class CallInProgress(ApiRecord):
    """A recorded call: ``done`` (not repeated), ``again`` (repeated), or ``unknown`` (a person is asked)."""

    name: str
    state: str
    once: bool


class EditableStep(ApiRecord):
    """A step in progress at a checkpoint. It runs again from its top, replaying its recorded calls."""

    activation: str
    """What ``edits.messages`` names it by."""
    step: str
    item: int | None
    """Which item of a map it runs for."""
    does: str
    """runs, waits, sleeps, retries or queues."""
    until: datetime | None
    message: Any
    """What it received, without secrets."""
    takes: dict[str, Any] | None
    """The schema of its message."""
    first: bool
    """Its message is the run's input."""
    calls: tuple[CallInProgress, ...]
    answers: tuple[str, ...]
    """Keys of its requests whose answers are recorded."""
    asks: tuple[str, ...]
    """Keys of its requests that are pending."""


class EditableParts(ApiRecord):
    """What may be edited of a checkpoint. ``refusal``: why nothing may; empty where it may."""

    refusal: str = ""
    state_schema: dict[str, Any] = {}
    state: Any = None
    """The state, without secrets."""
    doing: tuple[EditableStep, ...] = ()
    suggested: dict[str, Any] = {}
    """Request key -> the last answer to it."""


class RestartedStep(ApiRecord):
    """A step in progress at the checkpoint, which runs again. ``afresh``: with an edited message."""

    step: str
    does: str
    until: datetime | None = None
    times: int = 1
    afresh: bool = False


class FinishedStepRecord(ApiRecord):
    """A step that had finished by then, and how often: its results are kept."""

    step: str
    times: int


class CallRecord(ApiRecord):
    """Recorded calls of one name in one step. ``once``: their author says that they must not happen twice."""

    step: str
    name: str
    once: bool
    times: int


class SideEffectsRecord(ApiRecord):
    """What steps did outside. Nothing of it is undone."""

    kept: tuple[CallRecord, ...]
    """Done before the checkpoint: not repeated."""
    repeated: tuple[CallRecord, ...]
    """Done or interrupted after it: repeated if the run takes the same path."""
    unknown: tuple[CallRecord, ...]
    """Of unknown outcome: they may be repeated."""
    elsewhere: tuple[CallRecord, ...]
    """Done on other branches: they stay done."""


class ReopenedRequestRecord(ApiRecord):
    """A request that is opened again. ``suggestion``: its last answer; ``given``: the edits answer it."""

    request: PendingRequest
    suggestion: GivenAnswer | None
    given: bool


class ClosedRequestRecord(ApiRecord):
    """An open request that is closed. ``answered``: it has an answer that no step has received yet."""

    subject: str
    answered: bool


class EarlierAnswer(ApiRecord):
    """An answer that was given before the checkpoint."""

    key: str
    subject: str
    by: str
    verdict: str
    at: datetime


class EditedValueRecord(ApiRecord):
    """A value that the edits change: the message of a step, or, where it is empty, the state."""

    step: str
    before: Any
    after: Any


class CheckpointPreview(ApiRecord):
    """What restoring or forking a checkpoint would do. ``mark`` is what the confirmation sends back as ``seen``."""

    verb: Literal["restore", "fork"]
    chosen: CheckpointRecord
    current: bool
    """It is the head already."""
    problem: str
    """Why it is not possible at all."""
    note: str
    """Why less is known than usual."""
    again: tuple[RestartedStep, ...]
    repeats: tuple[str, ...]
    """Steps that started later: they run again if the run takes the same path."""
    stays: tuple[FinishedStepRecord, ...]
    outside: SideEffectsRecord
    reopens: tuple[ReopenedRequestRecord, ...]
    asks: tuple[str, ...]
    """Questions that are asked first: whether a call has happened."""
    closes: tuple[ClosedRequestRecord, ...]
    kept: tuple[EarlierAnswer, ...]
    """Answers that are kept, the newest 100."""
    kept_total: int
    forgotten: tuple[EarlierAnswer, ...]
    """Answers to steps that restart: they may ask the same again."""
    worker: str
    """The worker that has the run now; restoring stops it at once."""
    mark: str
    message_due: bool = False
    """The run follows another one, and gets its message again there."""
    message: Any = None
    """That message, if it is due."""
    words: tuple[str, ...]
    """What the edits change, one sentence each."""
    changes: tuple[EditedValueRecord, ...]
    patch: tuple[dict[str, Any], ...]
    """The edits as a JSON Patch (RFC 6902) of the checkpoint's body."""

    @property
    def effects(self) -> tuple[CallRecord, ...]:
        """Calls that are not undone and may be made a second time."""
        return (*self.outside.repeated, *self.outside.unknown)

"""Checkpoints, how to continue from one, and what differs between two of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from wfdash.contract import Edits
from wfdash.records.base import ApiRecord, Body, DescribedRecord, Page
from wfdash.records.requests import GivenAnswer
from wfdash.records.runs import EventRecord


class CheckpointRecord(DescribedRecord):
    """A checkpoint without its content. ``parent``: the one before it, of another run for the first of a fork."""

    id: str
    run: str
    workflow: str
    version: str
    """The graph it was written under."""
    engine: str
    n: int
    """1, 2, 3 ... per run."""
    parent: str | None
    step: str | None
    reason: str
    label: str | None
    created: datetime
    size: int
    """Bytes of its content."""
    seq: int
    """The last event that was written with it."""
    clean: bool
    flaw: str
    """Why it cannot be read, where it is damaged."""
    waiting: int
    """How many requests are pending there."""
    facts: dict[str, Any]
    """Metadata its owner stored with it; empty for people who may not inspect values."""


class CheckpointSummary(CheckpointRecord):
    """A checkpoint in the tree of its run. ``lane`` 0 is the current branch; ``by``: who made it, empty for the run."""

    lane: int
    head: bool
    by: str = ""


class CheckpointPage(Page[CheckpointSummary]):
    """A page of the tree, newest first; ``next`` is the cursor of the next page, empty at the end."""

    total: int


class PendingRequest(DescribedRecord):
    """A request as it is pending in a checkpoint."""

    key: str
    """Its name within the run, by which the code asks."""
    step: str
    kind: str
    card: dict[str, Any]
    answer_schema: dict[str, Any]
    by: tuple[str, ...]
    not_by: tuple[str, ...]
    due: datetime | None
    policy: dict[str, Any]
    """How it is decided: how many, reminder, escalation, default answer."""


class ToolUseRecord(ApiRecord):
    """A model's call of a tool. ``id``: what its result is found by."""

    id: str
    name: str
    arguments: Any


class MessageRecord(DescribedRecord):
    """A message of a conversation with a model; of a tool, ``call`` is the id of the call that it answers."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    name: str
    calls: list[ToolUseRecord]
    call: str
    failed: bool
    """Of a tool: whether it did."""
    model: str
    input_tokens: int | None
    output_tokens: int | None
    at: datetime | None


class CheckpointDetail(CheckpointRecord):
    """A checkpoint with its content, as its engine shows it. ``problem``: why there is none.

    ``note``: why an intact one is not shown.
    """

    state: dict[str, Any]
    """The value of the workflow's author."""
    transcript: list[MessageRecord]
    """The conversation with a model up to there, if there is one."""
    inputs: dict[str, Any]
    """Execution -> the input of a step that is in progress there."""
    requests: list[PendingRequest]
    problem: str
    note: str


class ContinueFrom(Body):
    """How to continue from a checkpoint. ``seen``: the ``mark`` of the preview that was shown; empty: none was.

    ``edits``: ``state`` (the whole new one), ``messages`` (activation -> message), ``answers`` (request key -> answer),
    ``reason``; null: without edits.
    """

    edits: Edits | None = None
    seen: str = ""


class PreviewOrder(Body):
    """What to preview."""

    verb: Literal["restore", "fork"] = "restore"
    edits: Edits | None = None


class SetLabel(Body):
    """A label; empty removes it."""

    label: str = ""


class StateCounts(ApiRecord):
    """How many executions of a step are in which state."""

    running: int = 0
    done: int = 0
    failed: int = 0
    retrying: int = 0
    waiting: int = 0
    sleeping: int = 0
    stopped: int = 0

    @property
    def total(self) -> int:
        """Return the number of all activations."""
        return sum(vars(self).values())

    @property
    def state(self) -> str:
        """Return the step's state: that of the activation that needs attention most."""
        order = ("failed", "waiting", "retrying", "running", "stopped", "sleeping", "done")
        return next((name for name in order if getattr(self, name)), "idle")


class MovedStep(ApiRecord):
    """A step whose counts of executions by state differ."""

    step: str
    before: StateCounts
    after: StateCounts


class ChangedRequest(ApiRecord):
    """A request that is pending in one of the two only, or in both with different cards."""

    key: str
    before: PendingRequest | None
    after: PendingRequest | None

    @property
    def request(self) -> PendingRequest:
        """Return the newer of the two requests."""
        found = self.after or self.before
        if found is None:
            raise AssertionError("a question is pending somewhere")
        return found


class CheckpointComparison(DescribedRecord):
    """The differences. ``patch``: RFC 6902, from state to state; ``shown_patch``: of all that is shown.

    ``note``: why the values are not compared.
    """

    before: CheckpointRecord
    after: CheckpointRecord
    moved: tuple[MovedStep, ...] = ()
    asked: tuple[ChangedRequest, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()
    shown_patch: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    """Why nothing is compared."""
    note: str = ""


# A run's past: what it was after an event, what may be edited, what restoring or forking would do.


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


class ReplayFacts(DescribedRecord):
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
    """How its steps came to be where they were, oldest first; of more than 10,000 the last ones."""


class CallInProgress(ApiRecord):
    """A recorded call: ``done`` (not repeated), ``again`` (repeated), or ``unknown`` (a person is asked)."""

    name: str
    state: str
    once: bool


class EditableStep(DescribedRecord):
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


class EditableParts(DescribedRecord):
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


class SideEffectsRecord(DescribedRecord):
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


class CheckpointPreview(DescribedRecord):
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

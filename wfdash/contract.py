"""The agreement between the dashboard and whatever executes a workflow. No Django.

In: ``Start | Resume``. Out: ``Finished | Waiting | Failed``. A crash and an answer take the same road: a crash
is a ``Resume`` with no answers.

Every engine is an ``Engine``. What else one can do it says by the optional protocols at the end; where it leaves one
out, the dashboard does without: runs of an older graph are kept, checkpoints are restored and forked unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from checkpoints.ids import RequestKey, RunId, WorkflowId
from checkpoints.records import Answer, Checkpoint, ErrorInfo, EventDraft, Json, Record, Request
from checkpoints.storage import Recorder

AGAIN = ("runs", "waits", "sleeps", "retries", "queues")
"""What an activation does when the run continues: at once; once a person answers; then (``until``); in its turn."""


class Start(Record):
    """Begin a run with this message (JSON, already valid for the workflow's input schema)."""

    run: RunId
    message: Json = None


class Resume(Record):
    """Continue from a checkpoint, with the answers that have arrived for its pending requests."""

    run: RunId
    checkpoint: Checkpoint
    answers: Mapping[RequestKey, Answer] = Field(default_factory=dict)


RunInput: TypeAlias = Start | Resume


class Finished(Record):
    """The run is complete; ``output`` is JSON."""

    output: Json = None
    checkpoint: Checkpoint


class Waiting(Record):
    """The run is parked: for people (``requests``), for a time (``until``), or both."""

    requests: tuple[Request, ...] = ()
    until: datetime | None = None
    checkpoint: Checkpoint


class Failed(Record):
    """A step failed for good. Resuming the same checkpoint tries that step again."""

    error: ErrorInfo
    checkpoint: Checkpoint


Outcome: TypeAlias = Finished | Waiting | Failed


class StepInfo(Record):
    """A node of the graph. ``person``: it may ask people. ``parent``: the sub-workflow step it is folded into."""

    name: str
    title: str = ""
    doc: str = ""
    person: bool = False
    parent: str | None = None
    takes: str = ""
    gives: str = ""
    was: tuple[str, ...] = ()
    """Names it had in earlier versions, as its author declares."""


class EdgeInfo(Record):
    """An arrow of the graph. ``kind``: plain | when | otherwise | case | each | gather | join."""

    source: str
    target: str
    kind: str = "plain"
    label: str = ""


class Description(Record):
    """A workflow as the dashboard shows it. ``version`` is the graph signature a run is pinned to."""

    workflow: WorkflowId
    title: str
    doc: str = ""
    engine: str
    version: str
    input_schema: dict[str, Json] = Field(default_factory=dict)
    output_schema: dict[str, Json] = Field(default_factory=dict)
    examples: tuple[Json, ...] = ()
    steps: tuple[StepInfo, ...] = ()
    edges: tuple[EdgeInfo, ...] = ()


class InvalidInput(ValueError):
    """The value does not fit the schema. ``errors``: list of ``{"loc": [...], "msg": "..."}``."""

    def __init__(self, errors: list[dict[str, Json]]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}" for e in errors))
        self.errors = errors


class Engine(Protocol):
    """Executes definitions of one kind. Loaded by dotted path, never imported by others."""

    name: str

    def accepts(self, definition: object) -> bool:
        """Say whether this object is a workflow of this engine's kind."""

    def describe(self, definition: object) -> Description:
        """Draw it. Raises the engine's own error when the definition is not valid."""

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message as the run will get it; raises ``InvalidInput`` with errors per field.

        It is judged by ``input_schema``, as forms are, and by whatever more the engine knows of it.
        """

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Run until finished, parked or failed; every durable moment goes through ``recorder.commit``."""


class InFlight(Record):
    """What a run is in the middle of: steps whose functions run, and calls that may or may not have happened."""

    steps: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


class Carried(Record):
    """What a checkpoint of an older graph becomes under the current one. ``how``: hook | alias | override."""

    how: str
    body: dict[str, Json]
    requests: tuple[Request, ...] = ()
    closed: tuple[RequestKey, ...] = ()
    """Questions that are not asked any more: what asked them was dropped or moved."""
    events: tuple[EventDraft, ...] = ()
    words: tuple[str, ...] = ()
    """What was done, one sentence each."""
    names: dict[str, str] = Field(default_factory=dict)
    """Old name -> new name of steps; the name of a sub-workflow counts for every step in it."""
    ended: tuple[str, ...] = ()
    """Activations that were dropped, or started afresh as another step."""


class CallInfo(Record):
    """A recorded call of an activation that is under way.

    ``state``: done (its result is on record: it is not made again), again (it was cut off and is made again), unknown
    (it may have happened: a person is asked).
    """

    name: str
    state: str
    once: bool = False


class ActivationInfo(Record):
    """An activation of a step that is under way at a checkpoint. It runs again from its top, by its record."""

    activation: str
    step: str
    item: int | None = None
    does: str = "runs"
    until: datetime | None = None
    message: Json = None
    takes: dict[str, Json] | None = None
    """The schema of its message; None where there is none to change."""
    first: bool = False
    """Its message is the run's input."""
    shown: bool = True
    """Whether it is a step that people see; False for the way into a sub-workflow."""
    calls: tuple[CallInfo, ...] = ()
    answers: tuple[RequestKey, ...] = ()
    """Questions of its that were answered: the answers are on record."""
    asks: tuple[RequestKey, ...] = ()
    """Questions of its that are pending."""


class LookAhead(Record):
    """What happens when a run continues from a checkpoint, as far as the checkpoint says. Runs no code of any step."""

    doing: tuple[ActivationInfo, ...] = ()
    asks: tuple[Request, ...] = ()
    """Questions that are not pending there, but are asked first of all: whether a call has happened."""
    state_schema: dict[str, Json] = Field(default_factory=dict)


class Edits(Record):
    """What a person changes before a run continues from a checkpoint. What is not named, or is the same, stays.

    ``state``: all of it anew. ``messages``: activation -> its message; it starts over with that. ``answers``: request
    key -> the answer to a question pending there. ``reason``: for the record; needed to answer what is for others.
    """

    state: dict[str, Json] | None = None
    messages: Mapping[str, Json] = Field(default_factory=dict)
    answers: Mapping[RequestKey, Json] = Field(default_factory=dict)
    reason: str = ""


class Edited(Record):
    """A checkpoint's content after edits, valid in its graph."""

    body: dict[str, Json]
    requests: tuple[Request, ...] = ()
    closed: tuple[RequestKey, ...] = ()
    """Questions that are not asked any more: what asked them starts over."""
    words: tuple[str, ...] = ()
    """What was done, one sentence each."""
    input: tuple[Json, ...] = ()
    """The run's input, if that was changed."""


@runtime_checkable
class ChecksAnswers(Protocol):
    """An engine that knows more of an answer than its schema can say. With others the schema alone decides."""

    def check_answer(self, definition: object, request: Request, value: Json) -> list[dict[str, Json]]:
        """Return what is wrong (``{"loc": [...], "msg": "..."}``) with a value that fits the request's schema.

        Empty: the step that asked will take it, as far as can be known here. Runs no code of any step.
        """


@runtime_checkable
class NamesSecrets(Protocol):
    """An engine that knows what its definitions call secret besides their input and output."""

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the names of such fields in messages and state."""


@runtime_checkable
class TellsInFlight(Protocol):
    """An engine that can say what a checkpoint was in the middle of. With others it is not known what was cut off."""

    def in_flight(self, definition: object, checkpoint: Checkpoint) -> InFlight:
        """Return it; runs no code of any step."""


@runtime_checkable
class Migrates(Protocol):
    """An engine that can carry checkpoints over to a changed graph. Others keep such runs as they are."""

    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under the current graph, checked; ``Incompatible`` says why not.

        By a declared hook or alias; with ``override`` unchanged, if it is valid there. Changes nothing.
        ``old``: the graph it was made under, where that is known.
        """


@runtime_checkable
class LooksAhead(Protocol):
    """An engine that can say what a checkpoint is about to do. Of others only the events tell."""

    def look_ahead(self, definition: object, checkpoint: Checkpoint, now: datetime) -> LookAhead:
        """Return it. ``Incompatible`` for a checkpoint of another graph."""


@runtime_checkable
class TakesEdits(Protocol):
    """An engine whose checkpoints people may change."""

    def edit(self, definition: object, checkpoint: Checkpoint, edits: Edits) -> Edited:
        """Return the checkpoint's content with state and messages changed; changes nothing, runs no step.

        ``InvalidInput`` with errors per field (``state``, ``messages`` + activation); ``Incompatible`` for a checkpoint
        of another graph. Answers are not its business: they are given like any other.
        """

"""The agreement between the dashboard and whatever executes a workflow. One page, no Django.

In: ``Start | Resume``. Out: ``Finished | Waiting | Failed``. A crash and an answer take the same road: a crash
is a ``Resume`` with no answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from checkpoints.ids import RequestKey, RunId, WorkflowId
from checkpoints.records import Answer, Checkpoint, ErrorInfo, EventDraft, Json, Record, Request
from checkpoints.storage import Recorder


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


class Engine(Protocol):
    """Executes definitions of one kind. Loaded by dotted path, never imported by others."""

    name: str

    def accepts(self, definition: object) -> bool:
        """Say whether this object is a workflow of this engine's kind."""

    def describe(self, definition: object) -> Description:
        """Draw it. Raises the engine's own error when the definition is not valid."""

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message as the run will get it; raises ``InvalidInput`` with errors per field."""

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Run until finished, parked or failed; every durable moment goes through ``recorder.commit``."""


@runtime_checkable
class ChecksAnswers(Protocol):
    """An engine that knows more of an answer than its schema can say. With others the schema alone decides."""

    def check_answer(self, definition: object, request: Request, value: Json) -> list[dict[str, Json]]:
        """Return what is wrong (``{"loc": [...], "msg": "..."}``) with a value that fits the request's schema.

        Empty: the step that asked will take it, as far as can be known here. Runs no code of any step.
        """


class UnderWay(Record):
    """What a run is in the middle of: steps whose functions run, and calls that may or may not have happened."""

    steps: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


@runtime_checkable
class TellsUnderWay(Protocol):
    """An engine that can say what a checkpoint was in the middle of. Of others nobody is told what was cut off."""

    def under_way(self, definition: object, checkpoint: Checkpoint) -> UnderWay:
        """Return it; runs no code of any step."""


class Carried(Record):
    """What a checkpoint of an older graph becomes under the present one. ``how``: hook | alias | override."""

    how: str
    body: dict[str, Json]
    requests: tuple[Request, ...] = ()
    closed: tuple[RequestKey, ...] = ()
    """Questions that are not asked any more: what asked them was dropped or moved."""
    events: tuple[EventDraft, ...] = ()
    words: tuple[str, ...] = ()
    """What was done, one sentence each."""
    names: dict[str, str] = Field(default_factory=dict)
    """Old name -> new name of steps; a sub-workflow's name stands for all that is in it."""
    ended: tuple[str, ...] = ()
    """Activations that were dropped, or started afresh as another step."""


@runtime_checkable
class Migrates(Protocol):
    """An engine that can carry checkpoints over to a changed graph. Others keep such runs as they are."""

    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under the present graph, checked; ``Incompatible`` says why not.

        By a declared hook or alias; with ``override`` as it is, if it is valid there. Changes nothing.
        ``old``: the graph it was made under, where that is known.
        """


class InvalidInput(ValueError):
    """The value does not fit the schema. ``errors``: list of ``{"loc": [...], "msg": "..."}``."""

    def __init__(self, errors: list[dict[str, Json]]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}" for e in errors))
        self.errors = errors

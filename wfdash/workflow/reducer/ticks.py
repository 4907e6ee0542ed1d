"""Ticks (what happened to a run) and commands (what to do about it).

The loop: collect ticks -> ``reduce`` them -> commit -> perform the commands. A tick carries its time, so the same ticks
give the same run whenever they are reduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, TypeAlias

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Effect, ErrorInfo, EventDraft, Json, JsonObject, Reason, Request, value_object
from wfdash.workflow.graph import Edge
from wfdash.workflow.stored import CallIntent, JournalEntry, Packed, Position, RecordedError


@value_object()
class Moment:
    """The whole state of a run between two ticks. Plain JSON apart from the requests; never changed, only replaced."""

    state: JsonObject
    position: Position
    requests: dict[RequestKey, Request] = field(default_factory=dict)


@value_object()
class Route:
    """A value on its way along an edge (None: the run's input). ``items``: (item index, value)."""

    target: str
    edge: Edge | None
    items: tuple[tuple[int, Packed], ...]


@value_object(kw_only=True)
class RunStarted:
    """The run starts. Processed: its input is delivered to the start steps."""

    at: datetime
    routes: tuple[Route, ...]
    state: Mapping[str, Json]
    title: str = ""
    """What the run is called, unless that is known already."""


@value_object(kw_only=True)
class RunResumed:
    """The run continues from a checkpoint. Processed: activations in progress run again, unknown calls are asked
    about.
    """

    at: datetime
    running: tuple[str, ...] = ()
    """Functions of an earlier drive that still run in this process."""


@value_object(kw_only=True)
class StepEnded:
    """A step returned. Processed: writes are applied, values delivered, complete joins fire.

    ``output``: its value if no edge took it. ``writes``: key -> ("set", json) | ("add", [json]) | ("del",).
    """

    at: datetime
    activation: str
    routes: tuple[Route, ...] = ()
    output: Packed | None = None
    writes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ms: float = 0.0
    skipped: bool = False
    shown: Json = None


@value_object(kw_only=True)
class StepFailed:
    """A step raised. Processed: another attempt after ``delay`` seconds, or (None) the run fails.

    ``calls``: the recorded calls whose exceptions it did not handle.
    """

    at: datetime
    activation: str
    error: ErrorInfo
    delay: float | None = None
    attempts: int = 1
    calls: tuple[int, ...] = ()


@value_object(kw_only=True)
class OperationIssued:
    """A step asks, calls or sleeps. Processed: it is recorded; a question opens; a ``once`` intent is saved.

    ``save``: a sleep long enough to be worth a commit of its own.
    """

    at: datetime
    activation: str
    entry: JournalEntry
    request: Request | None = None
    save: bool = False


@value_object(kw_only=True)
class AskedAgain:
    """A step that runs again asks something else than before. Processed: the question replaces the other.

    ``parts``: the parts that differ.
    """

    at: datetime
    activation: str
    index: int
    entry: JournalEntry
    request: Request
    parts: tuple[str, ...]


@value_object(kw_only=True)
class CallDiffers:
    """A repeated call has other arguments than were shown to the person who decided. Processed: it is asked again.

    ``intent``: ``args`` and ``at`` as they are now.
    """

    at: datetime
    activation: str
    index: int
    intent: CallIntent


@value_object(kw_only=True)
class CallDone:
    """A recorded call returned, or (``failed``) raised. ``raised``: the exception, if it can be reproduced.
    ``facts``: what its event says of how it was made.
    """

    at: datetime
    activation: str
    index: int
    result: Packed | None = None
    failed: str | None = None
    raised: RecordedError | None = None
    facts: JsonObject = field(default_factory=dict)


@value_object(kw_only=True)
class TranscriptGrown:
    """A step said what its conversation with a model is by now. Processed: it is in the next checkpoint.

    ``messages``: JSON, all from the beginning.
    """

    at: datetime
    activation: str
    messages: list[Json]


@value_object(kw_only=True)
class ModelUsed:
    """A step said what a model has used, outside of recorded calls. Processed: it is recorded and saved, once.

    ``place``: behind how many operations; ``used``: the fields of the event.
    """

    at: datetime
    activation: str
    place: int
    used: JsonObject


@value_object(kw_only=True)
class AnswersArrived:
    """People answered. Processed: the asking steps continue."""

    at: datetime
    answers: Mapping[RequestKey, Answer]


@value_object(kw_only=True)
class TimePassed:
    """Time has passed. Processed: sleeps and retry waits that are over end."""

    at: datetime


@value_object(kw_only=True)
class StepsIdle:
    """These activations only wait: they need not run again until something arrives.

    ``activations``: activation -> the journal entries it waits for; an entry that has ended since keeps it running.
    """

    at: datetime
    activations: Mapping[str, tuple[int, ...]]


Tick: TypeAlias = (
    RunStarted
    | RunResumed
    | StepEnded
    | StepFailed
    | OperationIssued
    | AskedAgain
    | CallDiffers
    | CallDone
    | TranscriptGrown
    | ModelUsed
    | AnswersArrived
    | TimePassed
    | StepsIdle
)


@value_object()
class RunStep:
    """Start (or start again) an activation's function."""

    activation: str


@value_object()
class ResolveEntry:
    """Entry ``index`` of the activation's journal has its result: let the waiting code continue."""

    activation: str
    index: int


@value_object()
class MakeCall:
    """The intent of this ``once`` call is recorded: make the call."""

    activation: str
    index: int


@value_object()
class CloseRequest:
    """A request that is answered or withdrawn."""

    key: RequestKey


@value_object()
class SaveCheckpoint:
    """This moment is to be committed."""

    reason: Reason
    step: str | None = None
    label: str | None = None


@value_object()
class FailRun:
    """The run fails here."""

    error: ErrorInfo


@value_object()
class CompleteRun:
    """Nothing is left to do: the run completes."""


Command: TypeAlias = (
    RunStep
    | ResolveEntry
    | MakeCall
    | EventDraft
    | Request
    | CloseRequest
    | Effect
    | SaveCheckpoint
    | FailRun
    | CompleteRun
)
"""A record is a command to write it: an event, a request that opens, an effect."""

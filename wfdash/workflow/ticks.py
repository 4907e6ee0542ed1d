"""What happens to a run (ticks) and what is to be done about it (commands).

The loop: collect ticks -> ``reduce`` them -> commit -> perform the commands. A tick carries its time, so the
same ticks give the same run whenever they are reduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Effect, ErrorInfo, EventDraft, Json, Reason, Request
from wfdash.workflow.graph import Edge

Packed: TypeAlias = list[Any]
"""``[code, json]``: how to decode it (see ``packing``) and what."""


@dataclass(frozen=True, slots=True)
class Moment:
    """All of a run between two ticks. Plain JSON apart from the requests; never changed, only replaced."""

    state: dict[str, Json]
    position: dict[str, Json]
    requests: dict[RequestKey, Request] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """A value on its way along an edge (None: the run's input). ``items``: (item index, value)."""

    target: str
    edge: Edge | None
    items: tuple[tuple[int, Packed], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The run starts. Processed: its input is delivered to the start steps."""

    at: datetime
    routes: tuple[Route, ...]
    state: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The run continues from a checkpoint. Processed: what was under way runs again, unknown calls are asked about."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded:
    """A step returned. Processed: writes land, values travel, joins that are complete fire.

    ``output``: its value if no edge took it. ``writes``: key -> ("set", json) | ("add", [json]) | ("del",).
    """

    at: datetime
    act: str
    routes: tuple[Route, ...] = ()
    output: Packed | None = None
    writes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ms: float = 0.0
    skipped: bool = False
    shown: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """A step raised. Processed: another attempt after ``delay`` seconds, or (None) the run fails.

    ``calls``: the recorded calls whose exceptions it did not handle.
    """

    at: datetime
    act: str
    error: ErrorInfo
    delay: float | None = None
    attempts: int = 1
    calls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpIssued:
    """A step asks, calls or sleeps. Processed: it is recorded; a question opens; a ``once`` intent is saved.

    ``save``: a sleep long enough to be worth a commit of its own.
    """

    at: datetime
    act: str
    entry: dict[str, Json]
    request: Request | None = None
    save: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDone:
    """A recorded call returned, or (``failed``) raised. ``raised``: the exception, if it can be made again."""

    at: datetime
    act: str
    index: int
    result: Packed | None = None
    failed: str | None = None
    raised: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """People answered. Processed: the asking steps go on."""

    at: datetime
    answers: Mapping[RequestKey, Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeCame:
    """Time has passed. Processed: sleeps and retry waits that are over end."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Idled:
    """These activations can do nothing but wait: they need not run again until something comes.

    ``acts``: activation -> the journal entries it waits for; one that has come meanwhile keeps it going.
    """

    at: datetime
    acts: Mapping[str, tuple[int, ...]]


Tick: TypeAlias = Began | Resumed | StepEnded | StepFailed | OpIssued | CallDone | Answered | TimeCame | Idled


@dataclass(frozen=True, slots=True)
class Run:
    """Start (or start again) an activation's function."""

    act: str


@dataclass(frozen=True, slots=True)
class Resolve:
    """Entry ``index`` of the activation's journal has its result: let the waiting code go on."""

    act: str
    index: int


@dataclass(frozen=True, slots=True)
class Perform:
    """The intent of this ``once`` call is on record: make the call."""

    act: str
    index: int


@dataclass(frozen=True, slots=True)
class Note:
    """An event to commit."""

    event: EventDraft


@dataclass(frozen=True, slots=True)
class Open:
    """A request to open."""

    request: Request


@dataclass(frozen=True, slots=True)
class Close:
    """A request that is answered or withdrawn."""

    key: RequestKey


@dataclass(frozen=True, slots=True)
class Log:
    """An effect to record."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Save:
    """This moment is worth a commit."""

    reason: Reason
    step: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The run fails here."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Complete:
    """Nothing is left to do."""


Command: TypeAlias = Run | Resolve | Perform | Note | Open | Close | Log | Save | Fail | Complete

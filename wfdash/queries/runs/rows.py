"""Runs as lists and pages show them: metadata, and for one run its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from django.utils import timezone

from checkpoints.records import ENDED, Json, Status
from wfdash.queries.run_names import worded
from wfdash.queries.runs.open_requests import AwaitedReply
from wfdash.queries.runs.pending import Pending
from wfdash.records.runs import RemovalRecord


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A run in a list: metadata only."""

    id: str
    workflow: str
    workflow_title: str
    status: Status
    created: datetime
    updated: datetime
    finished: datetime | None
    created_by: str
    acted_by: str
    wake_at: datetime | None
    seq: int
    n: int
    requests: tuple[AwaitedReply, ...] = ()
    """What it waits for, oldest first."""
    signal: str = ""
    """The name of the signal that the oldest of them waits for; empty where that one is for people."""
    waits_on: tuple[str, ...] = ()
    """The people and groups they are addressed to; none where anyone may answer."""
    step: str = ""
    """The step of the latest event; empty if there is none, or not recently."""
    progress: dict[str, Json] = field(default_factory=dict)
    """``{"fraction": 0..1, "text": str}`` as last reported; empty without a report."""
    version: str = ""
    altered: str = ""
    """How people changed its course: restored, edited, overridden; comma-separated."""
    forked: bool = False
    follows: str | None = None
    thread: str | None = None
    """The run that it follows up on, deleted or not, and the first run of its thread, if it has any."""
    failure: str = ""
    """Class and start of the message of its error, as far as the viewer may see it."""
    tags: tuple[str, ...] = ()
    own_title: str = ""
    """What its author calls it; empty where they say nothing."""
    summary: str = ""
    """The first values of its input, for those who may inspect them."""
    pending: Pending = ""
    """Why no worker takes it although it is due; empty where one will."""
    for_workers: bool = True
    """Whether workers may take it at all: not one that a program drives itself."""

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Return the subjects of its open requests."""
        return tuple(one.subject for one in self.requests)

    @property
    def driver(self) -> Literal["workers", "program"]:
        """Return who executes it: workers, or the program that has begun it with the library."""
        return "workers" if self.for_workers else "program"

    @property
    def awaits_program(self) -> bool:
        """Return whether its program could continue it, and does not execute it now."""
        return not self.for_workers and self.status in {Status.QUEUED, Status.INTERRUPTED}

    @property
    def rests(self) -> bool:
        """Return whether it has ended, or cannot continue before a person or its program acts."""
        if self.ended or self.awaits_program or self.status in {Status.PAUSED, Status.HELD}:
            return True
        return self.status is Status.WAITING and any(not one.signal for one in self.requests)

    @property
    def title(self) -> str:
        """Return what it is called, for this viewer."""
        return worded(self.workflow_title, self.own_title, self.summary)

    @property
    def label(self) -> str:
        """Return what it is called among runs of its workflow; empty where only its id tells them apart."""
        return self.own_title or self.summary

    @property
    def ended(self) -> bool:
        """Return whether it has ended."""
        return self.status.value in {phase.value for phase in ENDED}

    @property
    def lasted(self) -> timedelta:
        """Return its duration so far, or in all."""
        return (self.finished or timezone.now()) - self.created


@dataclass(frozen=True, kw_only=True)
class RunView(RunRow):
    """A run's header. Values are None for those who may not inspect, the traceback for all but operators."""

    engine: str
    input: Json = None
    output: Json = None
    error: dict[str, Json] | None = None
    retry: dict[str, Json] | None = None
    origin_checkpoint: str | None = None
    origin_run: str | None = None
    """The checkpoint this run was forked from, and its run."""
    worker: str = ""
    lingers: bool = False
    """Whether that worker lost the run, but has not stopped everything that runs there."""
    ending: str = ""
    """What it becomes once the running steps have ended: ``paused``, ``cancelled`` or empty."""
    attempts: int = 0
    """Times it was recovered in a row without progress."""
    inspect: bool = False
    operate: bool = False
    follows_gone: bool = False
    takes_follow_up: bool = False
    edits: bool = False
    """Whether they may also edit its checkpoints: its engine can, as far as its workflow is loaded."""
    removal: RemovalRecord | None = None
    """When it goes by its age, or what keeps it; None while it is open, and where no run is ever removed."""

"""Runs as lists and pages show them: metadata, and for one run its values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.utils import timezone

from checkpoints.records import ENDED, Json, Status
from wfdash.queries.runs.open_requests import AwaitedReply
from wfdash.records.runs import RunDetail, RunSummary, WaitingFor

ENDED_STATUSES = frozenset(Status(phase.value) for phase in ENDED)


class RunRow(RunSummary):
    """A run in a list, as pages show it: metadata only."""

    status: Status
    requests: tuple[AwaitedReply, ...] = ()
    acted_by: str
    wake_at: datetime | None
    signal: str = ""
    """The name of the signal that the oldest of its requests waits for; empty where that one is for people."""
    waits_on: tuple[str, ...] = ()
    """The people and groups that its requests are addressed to; none where anyone may answer."""
    step: str = ""
    """The step of the latest event; empty if there is none, or not recently."""
    version: str = ""
    forked: bool = False
    own_title: str = ""
    """What its author calls it; empty where they say nothing."""
    summary: str = ""
    """The first values of its input, for those who may inspect them."""

    @property
    def awaits_program(self) -> bool:
        """Return whether its program could continue it, and does not execute it now."""
        return awaits_program(self.status, self.driver)

    @property
    def label(self) -> str:
        """Return what it is called among runs of its workflow; empty where only its id tells them apart."""
        return self.own_title or self.summary

    @property
    def ended(self) -> bool:
        """Return whether it has ended."""
        return self.status in ENDED_STATUSES

    @property
    def lasted(self) -> timedelta:
        """Return its duration so far, or in all."""
        return (self.finished or timezone.now()) - self.created


def awaits_program(status: Status, driver: str) -> bool:
    """Return whether a run's program could continue it, and does not execute it now."""
    return driver == "program" and status in {Status.QUEUED, Status.INTERRUPTED}


def rests(status: Status, driver: str, requests: Iterable[WaitingFor]) -> bool:
    """Return whether a run has ended, or cannot continue before a person or its program acts."""
    if status in ENDED_STATUSES or awaits_program(status, driver) or status in {Status.PAUSED, Status.HELD}:
        return True
    return status is Status.WAITING and any(not one.signal for one in requests)


class RunView(RunRow, RunDetail):
    """A run's header. Values are None for those who may not inspect, the traceback for all but operators."""

    version: str
    retry: dict[str, Json] | None = None
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
    edits: bool = False
    """Whether they may also edit its checkpoints: its engine can, as far as its workflow is loaded."""

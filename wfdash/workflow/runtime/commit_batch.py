"""The content of the next commit, collected from commands until it is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from checkpoints.ids import RequestKey
from checkpoints.records import Effect, EventDraft, Reason, Request
from wfdash.workflow.reducer.ticks import (
    CloseRequest,
    Command,
    CompleteRun,
    FailRun,
    MakeCall,
    ResolveEntry,
    RunStep,
    SaveCheckpoint,
)

NUMBERS = re.compile(r"-(\d+)\.(\d+)")


class CommitBatch:
    """Events, requests, effects; ``follow_ups``: what to do once they are durable."""

    def __init__(self) -> None:
        self.events: list[EventDraft] = []
        self.opened: dict[RequestKey, Request] = {}
        self.closed: list[RequestKey] = []
        self.effects: dict[str, Effect] = {}
        self.reason: Reason | None = None
        self.step: str | None = None
        self.label: str | None = None
        self.follow_ups: list[RunStep | ResolveEntry | MakeCall] = []
        self.failure: FailRun | None = None
        self.complete = False

    @property
    def opened_in_order(self) -> tuple[Request, ...]:
        """Return the new requests in the order in which their steps started: those of a map in the order of its
        items.
        """
        return tuple(sorted(self.opened.values(), key=_started))

    def take(self, commands: list[Command]) -> None:
        """Add what a tick gave."""
        for command in commands:
            TAKERS[type(command)](self, command)


def _started(request: Request) -> tuple[int, int]:
    """Return the numbers of a request's activation and operation, from its key (``review-7.0``)."""
    found = NUMBERS.findall(request.key)
    return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)


def _note(batch: CommitBatch, event: EventDraft) -> None:
    batch.events.append(event)


def _open_request(batch: CommitBatch, request: Request) -> None:
    batch.opened[request.key] = request


def _close(batch: CommitBatch, command: CloseRequest) -> None:
    if batch.opened.pop(command.key, None) is None:
        batch.closed.append(command.key)


def _log(batch: CommitBatch, effect: Effect) -> None:
    batch.effects[effect.key] = effect


def _save(batch: CommitBatch, command: SaveCheckpoint) -> None:
    batch.reason, batch.step = command.reason, command.step
    batch.label = command.label or batch.label


def _act(batch: CommitBatch, command: Any) -> None:
    batch.follow_ups.append(command)


def _fail(batch: CommitBatch, command: FailRun) -> None:
    batch.failure = batch.failure or command


def _complete(batch: CommitBatch, command: CompleteRun) -> None:
    batch.complete = True


TAKERS: dict[type, Callable[[CommitBatch, Any], None]] = {
    EventDraft: _note,
    Request: _open_request,
    CloseRequest: _close,
    Effect: _log,
    SaveCheckpoint: _save,
    RunStep: _act,
    ResolveEntry: _act,
    MakeCall: _act,
    FailRun: _fail,
    CompleteRun: _complete,
}

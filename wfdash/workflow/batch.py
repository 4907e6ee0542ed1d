"""What the next commit will hold: collected from commands until it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkpoints.ids import RequestKey
from checkpoints.records import Effect, EventDraft, Reason, Request
from wfdash.workflow.ticks import Close, Command, Complete, Fail, Log, Note, Open, Perform, Resolve, Run, Save


class Batch:
    """Events, requests, effects; ``acts``: what to do once they are durable."""

    def __init__(self) -> None:
        self.events: list[EventDraft] = []
        self.opened: dict[RequestKey, Request] = {}
        self.closed: list[RequestKey] = []
        self.effects: dict[str, Effect] = {}
        self.reason: Reason | None = None
        self.step: str | None = None
        self.label: str | None = None
        self.acts: list[Run | Resolve | Perform] = []
        self.failure: Fail | None = None
        self.complete = False

    def take(self, commands: list[Command]) -> None:
        """Add what a tick gave."""
        for command in commands:
            TAKERS[type(command)](self, command)


def _note(batch: Batch, command: Note) -> None:
    batch.events.append(command.event)


def _open(batch: Batch, command: Open) -> None:
    batch.opened[command.request.key] = command.request


def _close(batch: Batch, command: Close) -> None:
    if batch.opened.pop(command.key, None) is None:
        batch.closed.append(command.key)


def _log(batch: Batch, command: Log) -> None:
    batch.effects[command.effect.key] = command.effect


def _save(batch: Batch, command: Save) -> None:
    batch.reason, batch.step = command.reason, command.step
    batch.label = command.label or batch.label


def _act(batch: Batch, command: Any) -> None:
    batch.acts.append(command)


def _fail(batch: Batch, command: Fail) -> None:
    batch.failure = batch.failure or command


def _complete(batch: Batch, command: Complete) -> None:
    batch.complete = True


TAKERS: dict[type, Callable[[Batch, Any], None]] = {
    Note: _note,
    Open: _open,
    Close: _close,
    Log: _log,
    Save: _save,
    Run: _act,
    Resolve: _act,
    Perform: _act,
    Fail: _fail,
    Complete: _complete,
}

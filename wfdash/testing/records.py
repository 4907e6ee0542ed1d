"""What a test sees: runs, requests, votes and calls, as they were after the bench's last action. No Django."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic_core import to_jsonable_python

from checkpoints.ids import RequestKey
from checkpoints.records import CheckpointInfo, ErrorInfo, Event, Json, JsonObject, Status, frozen
from wfdash.contract import RunFailed, StillWaiting, answer_to


@frozen
class VoteCount:
    """What an answer did: how many people said the same, how many are needed, whether that decided it."""

    votes: int
    need: int
    decided: bool


@frozen
class Call:
    """A ``ctx.call`` that really happened: one that was repeated is there twice, a replayed one is not."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@frozen
class BenchRequest:
    """An open request. ``votes``: who has voted so far, and for what."""

    id: str
    run: str
    key: RequestKey
    step: str
    kind: str
    card: JsonObject
    answer_schema: JsonObject
    by: tuple[str, ...]
    not_by: tuple[str, ...]
    due: datetime | None
    votes: dict[str, str]

    @property
    def subject(self) -> str:
        """Return what it asks."""
        return str(self.card.get("subject") or "")


@dataclass(kw_only=True)
class BenchRun:
    """A run of the bench. Its fields are current after each awaited action of the bench."""

    id: str
    workflow: str = ""
    title: str = ""
    status: Status = Status.QUEUED
    output: Json = None
    error: ErrorInfo | None = None
    state: JsonObject = field(default_factory=dict)
    requests: tuple[BenchRequest, ...] = ()
    events: tuple[Event, ...] = ()
    checkpoints: tuple[CheckpointInfo, ...] = ()
    wakes: datetime | None = None
    """When it continues automatically: after a sleep, or before its next attempt."""

    @property
    def request(self) -> BenchRequest:
        """Return its only open request. ``LookupError`` if there is none, or there are several."""
        if len(self.requests) == 1:
            return self.requests[0]
        if not self.requests:
            raise LookupError(f"{self!r} has no open request")
        asked = ", ".join(f"{one.step}: {one.subject!r}" for one in self.requests)
        raise LookupError(f"{self!r} has {len(self.requests)} open requests, choose one of run.requests: {asked}")

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of its events, in order."""
        return [event.kind for event in self.events]

    def result(self) -> Json:
        """Return its output. ``RunFailed`` if it failed, ``StillWaiting`` if it has not ended."""
        if self.error is not None:
            raise RunFailed(self.error)
        if self.status is not Status.COMPLETED:
            asked = f": {', '.join(one.subject for one in self.requests)}" if self.requests else ""
            raise StillWaiting(f"The run is {self.status}{asked}")
        return self.output

    def checkpoint(self, step: str) -> CheckpointInfo:
        """Return the newest checkpoint after this step. ``LookupError``."""
        found = next((one for one in reversed(self.checkpoints) if one.step == step), None)
        if found is None:
            known = ", ".join(dict.fromkeys(str(one.step) for one in self.checkpoints if one.step)) or "none"
            raise LookupError(f"{self!r} has no checkpoint after step {step!r}; there are: {known}")
        return found

    def __repr__(self) -> str:
        more = f", failed: {self.error.type}: {self.error.message}" if self.error else ""
        return f"<run of {self.workflow}: {self.status}{more}>"


def as_json(value: Any) -> Json:
    """Return a model, dataclass or value as JSON."""
    return to_jsonable_python(value)


def written_out(schema: Mapping[str, Any], value: Any, fields: Mapping[str, Any]) -> Json:
    """Return an answer as it is sent; without a value its fields are all of it."""
    return as_json(answer_to(schema, {} if value is None and fields else value, fields))

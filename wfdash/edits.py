"""What a checkpoint is about to do and what people may change in it: the agreement with engines. No Django.

An engine that can do neither leaves the protocols out: then checkpoints are restored and forked as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable

from pydantic import Field

from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, Json, Record, Request

AGAIN = ("runs", "waits", "sleeps", "retries", "queues")
"""What an activation does when the run goes on: at once; once somebody answers; then (``until``); in its turn."""


class Call(Record):
    """A recorded call of an activation that is under way.

    ``state``: done (its result is on record: it is not made again), again (it was cut off and is made again), unknown
    (nobody knows whether it happened: a person is asked).
    """

    name: str
    state: str
    once: bool = False


class Doing(Record):
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
    calls: tuple[Call, ...] = ()
    answers: tuple[RequestKey, ...] = ()
    """Questions of its that were answered: the answers are on record."""
    asks: tuple[RequestKey, ...] = ()
    """Questions of its that are pending."""


class Outlook(Record):
    """What happens when a run goes on from a checkpoint, as far as the checkpoint says. Runs no code of any step."""

    doing: tuple[Doing, ...] = ()
    asks: tuple[Request, ...] = ()
    """Questions that are not pending there, but are asked first of all: whether a call has happened."""
    state_schema: dict[str, Json] = Field(default_factory=dict)


class Edits(Record):
    """What a person changes before a run goes on from a checkpoint. What is not named, or is the same, stays.

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
class NamesSecrets(Protocol):
    """An engine that knows what its definitions call secret besides their input and output."""

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the names of such fields in messages and state."""


@runtime_checkable
class LooksAhead(Protocol):
    """An engine that can say what a checkpoint is about to do. Of others only the events tell."""

    def look_ahead(self, definition: object, checkpoint: Checkpoint, now: datetime) -> Outlook:
        """Return it. ``Incompatible`` for a checkpoint of another graph."""


@runtime_checkable
class TakesEdits(Protocol):
    """An engine whose checkpoints people may change."""

    def edit(self, definition: object, checkpoint: Checkpoint, edits: Edits) -> Edited:
        """Return the checkpoint's content with state and messages changed; changes nothing, runs no step.

        ``InvalidInput`` with errors per field (``state``, ``messages`` + activation); ``Incompatible`` for a checkpoint
        of another graph. Answers are not its business: they are given like any other.
        """

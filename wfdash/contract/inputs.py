"""What an engine is handed to drive a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pydantic import Field

from checkpoints.ids import RequestKey, RunId
from checkpoints.records import Answer, Checkpoint, Json, Record


class Start(Record):
    """Start a run with this message (JSON, already valid for the workflow's input schema)."""

    run: RunId
    message: Json = None


class Continue(Record):
    """Start a run that follows a finished one, with a message that ``check_follow_up`` has accepted.

    ``checkpoint`` has the content of the one that the earlier run ended with, stored as this run's first: the next one
    is its child. The same ``Continue`` comes again until a checkpoint is committed.
    """

    run: RunId
    checkpoint: Checkpoint
    message: Json = None


class Resume(Record):
    """Continue from a checkpoint, with the answers that have arrived for its pending requests."""

    run: RunId
    checkpoint: Checkpoint
    answers: Mapping[RequestKey, Answer] = Field(default_factory=dict)


RunInput: TypeAlias = Start | Continue | Resume

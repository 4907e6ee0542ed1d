"""What a run of an agent gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from checkpoints.records import Json
from wfdash.workflow import Context

TURN = "model turn"
"""The event of a turn that a model has made, with its name and its tokens."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a run of an agent has used: turns of a model, and tokens as its provider counts them."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class AgentReply(Generic[T]):
    """The end of a run of an agent.

    ``history``: every message as JSON, for the ``history`` of a later run.
    """

    output: T
    history: list[Json]
    usage: Usage


def said_turn(ctx: Context, model: str | None, input_tokens: int, output_tokens: int) -> None:
    """Show on the run's page that a model has made a turn. Inside of a recorded call: once, whatever is replayed."""
    ctx.emit(TURN, {"model": model, "input_tokens": input_tokens, "output_tokens": output_tokens})

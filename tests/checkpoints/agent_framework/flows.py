"""A workflow of Agent Framework that asks a person, and values that its checkpoints may have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from agent_framework import (
    Executor,
    Workflow,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowContext,
    handler,
    response_handler,
)


@dataclass
class Claim:
    """A type of the application, which a storage decodes only if it is named."""

    amount: float
    tags: list[str]


class Desk(Executor):
    """Asks whether a claim is paid."""

    @handler
    async def open(self, amount: int, ctx: WorkflowContext[str]) -> None:
        """Ask."""
        await ctx.request_info(f"Pay {amount}?", bool)

    @response_handler
    async def decided(self, question: str, answer: bool, ctx: WorkflowContext[str]) -> None:
        """Hand on what was decided."""
        await ctx.send_message(f"{question} {'yes' if answer else 'no'}")


class Letter(Executor):
    """Ends the workflow."""

    @handler
    async def write(self, text: str, ctx: WorkflowContext[Any, str]) -> None:
        """Give the output."""
        await ctx.yield_output(text)


def claims(storage: Any) -> Workflow:
    """Return the workflow as one process has it."""
    desk, letter = Desk(id="desk"), Letter(id="letter")
    builder = WorkflowBuilder(start_executor=desk, name="claims", checkpoint_storage=storage, output_from=[letter])
    return builder.add_edge(desk, letter).build()


VALUES: dict[str, Any] = {
    "text": "Grüße \u2028",
    "nothing": None,
    "number": -(2**80),
    "float": 0.1,
    "nan": float("nan"),
    "infinite": [float("inf"), {"inner": float("-inf")}],
    "half a character": "\ud800",
    "NUL": "a\0b",
    "moment": datetime(2026, 11, 23, 9, 30, 0, 123456, tzinfo=UTC),
    "pair": (1, "two", None),
    "set": frozenset({1, 2}),
    "bytes": b"\x00\xff",
    "uuid": UUID(int=7),
    "reserved": {"__pickled__": "x", "__type__": "y"},
    "keys": {1: "a", "1": "b"},
    "numbers as keys": {1: "a", 2: [{(3, None): {"b": 4.0}}]},
    "a key with NUL": {"a\0b": 1},
    "nested": {"deep": [{"deeper": {"deepest": (1,)}}]},
    "empty": {},
}


def made(name: str = "claims", **more: Any) -> WorkflowCheckpoint:
    """Return a checkpoint as the framework makes it."""
    return WorkflowCheckpoint(workflow_name=name, graph_signature_hash="hash", **more)

"""Checkpoints, how to continue from one, and what differs between two of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from wfdash.contract import Edits
from wfdash.records.base import ApiRecord, Body, Page


class CheckpointRecord(ApiRecord):
    """A checkpoint without its content. ``parent``: the one before it, of another run for the first of a fork."""

    id: str
    run: str
    workflow: str
    version: str
    """The graph it was written under."""
    engine: str
    n: int
    """1, 2, 3 ... per run."""
    parent: str | None
    step: str | None
    reason: str
    label: str | None
    created: datetime
    size: int
    """Bytes of its content."""
    seq: int
    """The last event that was written with it."""
    clean: bool
    flaw: str
    """Why it cannot be read, where it is damaged."""
    waiting: int
    """How many requests are pending there."""
    facts: dict[str, Any]
    """Metadata its owner stored with it; empty for people who may not inspect values."""


class CheckpointSummary(CheckpointRecord):
    """A checkpoint in the tree of its run. ``lane`` 0 is the current branch; ``by``: who made it, empty for the run."""

    lane: int
    head: bool
    by: str = ""


class CheckpointPage(Page[CheckpointSummary]):
    """A page of the tree, newest first; ``next`` is the cursor of the next page, empty at the end."""

    total: int


class PendingRequest(ApiRecord):
    """A request as it is pending in a checkpoint."""

    key: str
    """Its name within the run, by which the code asks."""
    step: str
    kind: str
    card: dict[str, Any]
    answer_schema: dict[str, Any]
    by: tuple[str, ...]
    not_by: tuple[str, ...]
    due: datetime | None
    policy: dict[str, Any]
    """How it is decided: how many, reminder, escalation, default answer."""


class ToolUseRecord(ApiRecord):
    """A model's call of a tool. ``id``: what its result is found by."""

    id: str
    name: str
    arguments: Any


class MessageRecord(ApiRecord):
    """A message of a conversation with a model; of a tool, ``call`` is the id of the call that it answers."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    name: str
    calls: list[ToolUseRecord]
    call: str
    failed: bool
    """Of a tool: whether it did."""
    model: str
    input_tokens: int | None
    output_tokens: int | None
    at: datetime | None


class CheckpointDetail(CheckpointRecord):
    """A checkpoint with its content, as its engine shows it. ``problem``: why there is none.

    ``note``: why an intact one is not shown.
    """

    state: dict[str, Any]
    """The value of the workflow's author."""
    transcript: list[MessageRecord]
    """The conversation with a model up to there, if there is one."""
    inputs: dict[str, Any]
    """Execution -> the input of a step that is in progress there."""
    requests: list[PendingRequest]
    problem: str
    note: str


class ContinueFrom(Body):
    """How to continue from a checkpoint. ``seen``: the ``mark`` of the preview that was shown; empty: none was.

    ``edits``: ``state`` (the whole new one), ``messages`` (activation -> message), ``answers`` (request key -> answer),
    ``reason``; null: without edits.
    """

    edits: Edits | None = None
    seen: str = ""


class PreviewOrder(Body):
    """What to preview."""

    verb: Literal["restore", "fork"] = "restore"
    edits: Edits | None = None


class SetLabel(Body):
    """A label; empty removes it."""

    label: str = ""


class StateCounts(ApiRecord):
    """How many executions of a step are in which state."""

    running: int = 0
    done: int = 0
    failed: int = 0
    retrying: int = 0
    waiting: int = 0
    sleeping: int = 0
    stopped: int = 0

    @property
    def total(self) -> int:
        """Return the number of all activations."""
        return sum(vars(self).values())

    @property
    def state(self) -> str:
        """Return the step's state: that of the activation that needs attention most."""
        order = ("failed", "waiting", "retrying", "running", "stopped", "sleeping", "done")
        return next((name for name in order if getattr(self, name)), "idle")


class MovedStep(ApiRecord):
    """A step whose counts of executions by state differ."""

    step: str
    before: StateCounts
    after: StateCounts


class ChangedRequest(ApiRecord):
    """A request that is pending in one of the two only, or in both with different cards."""

    key: str
    before: PendingRequest | None
    after: PendingRequest | None

    @property
    def request(self) -> PendingRequest:
        """Return the newer of the two requests."""
        found = self.after or self.before
        if found is None:
            raise AssertionError("a question is pending somewhere")
        return found


class CheckpointComparison(ApiRecord):
    """The differences. ``patch``: RFC 6902, from state to state; ``shown_patch``: of all that is shown.

    ``note``: why the values are not compared.
    """

    before: CheckpointRecord
    after: CheckpointRecord
    moved: tuple[MovedStep, ...] = ()
    asked: tuple[ChangedRequest, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()
    shown_patch: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    """Why nothing is compared."""
    note: str = ""

"""Checkpoints, and what differs between two of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from wfdash.contract import Edits
from wfdash.records.base import ApiRecord, Body


class CheckpointSummary(ApiRecord):
    """A checkpoint without its content. ``lane`` 0 is the current branch."""

    id: str
    n: int
    parent: str | None
    step: str | None
    reason: str
    label: str | None
    created: datetime
    size: int
    seq: int
    clean: bool
    flaw: str
    """Why it cannot be read, where it is damaged."""
    waiting: int
    """How many requests are pending there."""
    facts: dict[str, Any]
    """Metadata its owner stored with it; empty for people who may not inspect values."""
    lane: int
    head: bool
    by: str = ""


class CheckpointPage(ApiRecord):
    """A page of the tree, newest first; ``next`` is the cursor of the next page, empty at the end."""

    items: list[CheckpointSummary]
    next: str
    total: int


class CheckpointDetail(ApiRecord):
    """A checkpoint with its content."""

    id: str
    n: int
    parent: str | None
    created: datetime
    facts: dict[str, Any]
    body: dict[str, Any]
    requests: list[dict[str, Any]]
    problem: str


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


class MovedStep(ApiRecord):
    """A step whose counts of activations by state differ."""

    step: str
    before: dict[str, int]
    after: dict[str, int]


class ChangedRequest(ApiRecord):
    """A request that is pending in one of the two only, or in both with different cards."""

    key: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class CheckpointComparison(ApiRecord):
    """The differences. ``patch``: RFC 6902, from state to state; ``body_patch``: from body to body."""

    before: dict[str, Any]
    after: dict[str, Any]
    moved: list[MovedStep]
    asked: list[ChangedRequest]
    patch: list[dict[str, Any]]
    body_patch: list[dict[str, Any]]
    problem: str

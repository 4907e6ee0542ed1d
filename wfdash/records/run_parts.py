"""Parts of a run: the executions of its steps, its log, its values."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from wfdash.records.base import ApiRecord, Body, Page


class ActivationRecord(ApiRecord):
    """One execution of a step (of a map: of one item), retries included. ``label``: what its author calls the item."""

    id: str
    step: str
    state: str
    began: datetime
    ended: datetime | None
    attempts: int
    number: int = 1
    """Which execution of its step it is, from 1."""
    item: int | None = None
    label: str = ""


class StepPage(Page[ActivationRecord]):
    """A page of executions in the order in which they started; ``next`` is the cursor of the next page."""

    total: int


class LogLineRecord(ApiRecord):
    """A log record. ``text`` is null for people who may not see what steps log."""

    seq: int
    at: datetime
    step: str
    level: str
    logger: str
    text: str | None


class LogRecordPage(Page[LogLineRecord]):
    """Log records, oldest first; ``next`` is the cursor for what is logged later, also at the end."""


RunPart: TypeAlias = Literal["state", "input", "output", "inputs", "transcript"]
"""A part of a run's values. ``inputs``: of the steps in progress; ``transcript``: the conversation with a model."""


class ValueRecord(ApiRecord):
    """A part of a run's values. ``problem``: why there is none."""

    part: str
    value: Any = None
    checkpoint: str | None = None
    """The checkpoint it is from."""
    problem: str = ""


class SetTags(Body):
    """Tags to add and to remove."""

    add: list[str] = []
    remove: list[str] = []


class TagList(ApiRecord):
    """The tags of a run."""

    tags: list[str]

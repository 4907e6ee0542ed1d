"""Workflows: the catalogue, and what a run of one takes and does."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wfdash.records.base import ApiRecord, DescribedRecord, Page


class WorkflowSummary(DescribedRecord):
    """A workflow in the catalogue. ``loaded`` is false where only its runs are left."""

    name: str
    title: str
    loaded: bool = True
    may_start: bool = False
    active: int = 0
    """Runs that have not ended, counted up to 2,000."""
    failed: int = 0
    waiting_requests: int = 0
    hours: dict[str, list[int]] = {}
    """``started`` and ``failed``: how many runs did in each of the last 24 hours (UTC), the oldest first."""
    last_run: datetime | None = None
    next_run: datetime | None = None
    """When a schedule starts the next one."""


class WorkflowPage(Page[WorkflowSummary]):
    """The catalogue; ``next`` is the cursor of the next page, empty at the end."""


class StepRecord(ApiRecord):
    """A step. ``person``: it may ask people. ``parent``: the step of a sub-workflow that it belongs to."""

    name: str
    title: str = ""
    doc: str = ""
    person: bool = False
    parent: str | None = None
    takes: str = ""
    gives: str = ""


class EdgeRecord(ApiRecord):
    """An arrow of the graph. ``kind``: plain, when, otherwise, case, each, gather or join."""

    source: str
    target: str
    kind: str = "plain"
    label: str = ""


class VersionRecord(ApiRecord):
    """A graph that runs were started under. ``changes``: since the version before, one sentence each."""

    version: str
    created: datetime | None
    runs: int
    current: bool
    changes: tuple[str, ...] = ()


class WorkflowDetail(WorkflowSummary):
    """A workflow with its graph and the JSON Schemas of what it takes and gives."""

    doc: str
    engine: str
    version: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    follow_up_schema: dict[str, Any] | None = None
    """Of the message that follows up on a completed run; null where runs take none."""
    examples: list[Any]
    queue: str = "default"
    """Only workers that serve this queue take its runs."""
    limit: int | None = None
    """How many of its runs may execute at once, in all workers; null: any number."""
    steps: list[StepRecord]
    edges: list[EdgeRecord]
    versions: list[VersionRecord]


class CheckedMessage(ApiRecord):
    """The message as a run would receive it: with its defaults, without secrets."""

    message: Any = None


class SourceFileRecord(DescribedRecord):
    """A Python file with steps of a workflow, as it was loaded. ``changed``: it is another one on the disk now."""

    path: str
    text: str
    steps: dict[str, list[int]]
    """Step -> the first and the last line of its function, counted from 1."""
    changed: bool


class SourceFilePage(Page[SourceFileRecord]):
    """The files with a workflow's steps, all of them; none where the installation shows no code."""

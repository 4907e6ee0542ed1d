"""What a text leads to."""

from __future__ import annotations

from wfdash.records.base import ApiRecord


class FoundRun(ApiRecord):
    """A run that was found."""

    id: str
    workflow: str
    title: str
    status: str


class FoundRequest(ApiRecord):
    """An open request that was found."""

    id: str
    run: str
    workflow: str
    subject: str


class FoundWorkflow(ApiRecord):
    """A workflow that was found."""

    name: str
    title: str


class FoundCheckpoint(ApiRecord):
    """A checkpoint that an id leads to."""

    id: str
    run: str
    n: int
    step: str


class FoundEverything(ApiRecord):
    """What a text leads to, a few of each kind, as far as you may see it."""

    runs: list[FoundRun]
    requests: list[FoundRequest]
    workflows: list[FoundWorkflow]
    checkpoints: list[FoundCheckpoint]
    people: list[str]

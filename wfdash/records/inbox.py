"""The inbox as a whole: counts, decisions made, many requests at once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wfdash.records.base import ApiRecord, Body


class InboxCounts(ApiRecord):
    """How many requests each tab of the inbox has."""

    tabs: dict[str, int]


class DecisionRecord(ApiRecord):
    """A request that was answered. ``outcome``: how it was decided; ``reversed``: the run was restored before it."""

    id: str
    run: str
    run_title: str
    workflow: str
    step: str
    kind: str
    subject: str
    created: datetime
    answered: datetime
    outcome: str
    verdict: str
    reversed: bool


class DecisionPage(ApiRecord):
    """A page of decisions, the latest first; ``next`` is the cursor of the next page, empty at the end."""

    items: list[DecisionRecord]
    next: str = ""


class ChosenRequest(Body):
    """A request, and its ``seen`` as it was read: the answer counts only for that."""

    id: str
    seen: str


class AnswerMany(Body):
    """One answer for several requests of one kind, at most 200."""

    requests: list[ChosenRequest]
    value: Any = None
    verdict: str = ""


class AssignMany(Body):
    """Requests, and the user name they are assigned to; null: to no one."""

    requests: list[str]
    to: str | None = None


class RequestOutcome(ApiRecord):
    """What became of a request. ``problem``: why it is unchanged, empty if it was done."""

    request: str
    subject: str
    problem: str = ""


class OutcomeList(ApiRecord):
    """What became of each request."""

    items: list[RequestOutcome]
    next: str = ""


class UndoMany(Body):
    """Requests whose answers to undo."""

    requests: list[str]


class UndoneCount(ApiRecord):
    """How many answers were undone, and for how many it was too late."""

    undone: int
    late: int

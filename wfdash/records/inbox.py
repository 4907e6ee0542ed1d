"""The inbox as a whole: counts, decisions made, many requests at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field

from wfdash.records.base import ApiRecord, Body, Page, ScannedPage


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

    @property
    def took(self) -> timedelta:
        """Return how long it was open."""
        return max(self.answered - self.created, timedelta())


class DecisionPage(ScannedPage[DecisionRecord]):
    """A page of decisions, the latest first; ``next`` is the cursor of the next page, empty at the end.

    ``reached``: no index covers the filter, and only decisions later than this were scanned yet.
    """


class ChosenRequest(Body):
    """A request, and its ``seen`` as it was read: the answer counts only for that."""

    id: str
    seen: str


class AnswerMany(Body):
    """One answer for several requests of one kind, at most 500."""

    requests: Annotated[list[ChosenRequest], Field(min_length=1, max_length=500)]
    value: Any = None
    verdict: str = ""


class AssignMany(Body):
    """Requests, at most 200, and the user name they are assigned to; null: to no one."""

    requests: Annotated[list[str], Field(min_length=1, max_length=200)]
    to: str | None = None


class RequestOutcome(ApiRecord):
    """What became of a request. ``problem``: why it is unchanged, empty if it was done."""

    request: str
    subject: str
    problem: str = ""


class OutcomeList(Page[RequestOutcome]):
    """What became of each request."""


class UndoMany(Body):
    """Requests whose answers to undo, at most 500."""

    requests: Annotated[list[str], Field(min_length=1, max_length=500)]


class UndoneCount(ApiRecord):
    """How many answers were undone, and for how many it was too late."""

    undone: int
    late: int

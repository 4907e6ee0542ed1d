"""Schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wfdash.records.base import ApiRecord, Body, Page


class ChangeSchedule(Body):
    """A schedule's settings. ``missed``: skip, once or all; ``overlap``: allow or skip."""

    name: str
    cron: str
    zone: str = "UTC"
    message: Any = None
    missed: str = "once"
    overlap: str = "allow"


class CreateSchedule(ChangeSchedule):
    """A new schedule of a workflow."""

    workflow: str


class ScheduleSummary(ApiRecord):
    """A schedule. ``state``: on, paused, or stopped for the reason in ``problem``; ``upcoming``: the next five."""

    id: str
    workflow: str
    name: str
    cron: str
    words: str
    zone: str
    missed: str
    overlap: str
    owner: str
    state: str
    problem: str
    next_at: datetime | None
    last_at: datetime | None
    passed_at: datetime | None
    last_run: str | None = None
    upcoming: tuple[datetime, ...]


class SchedulePage(Page[ScheduleSummary]):
    """A page of schedules, the next to fire first; ``next`` is the cursor of the next page, empty at the end."""


class ScheduleDetail(ScheduleSummary):
    """A schedule with its input, null for people who may not inspect it. Secrets are left out."""

    message: Any = None


class UpcomingTimes(ApiRecord):
    """An expression as text, and when it fires next."""

    words: str
    upcoming: list[datetime]

"""Calls about schedules."""

from __future__ import annotations

from typing import Any

from wfdash.client.script import Script
from wfdash.client.sending import delete, get, post
from wfdash.records import Created, ScheduleDetail, SchedulePage, ScheduleSummary


def schedules(filter: str = "", *, workflow: str = "") -> Script[list[ScheduleSummary]]:  # noqa: A002
    """Return schedules, the next to fire first."""
    found = yield from get("/schedules", q=filter, workflow=workflow)
    return SchedulePage.model_validate(found).items


def schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Return a schedule."""
    return ScheduleDetail.model_validate((yield from get(f"/schedules/{schedule_id}")))


def create_schedule(
    workflow: str,
    name: str,
    cron: str,
    *,
    zone: str = "UTC",
    message: Any = None,
    missed: str = "once",
    overlap: str = "allow",
) -> Script[ScheduleDetail]:
    """Create a schedule; its runs are started on behalf of the caller."""
    plan = {"name": name, "cron": cron, "zone": zone, "message": message, "missed": missed, "overlap": overlap}
    return ScheduleDetail.model_validate((yield from post("/schedules", {"workflow": workflow, **plan})))


def pause_schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Pause a schedule until it is resumed."""
    return ScheduleDetail.model_validate((yield from post(f"/schedules/{schedule_id}/pause")))


def resume_schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Resume a schedule with its next time."""
    return ScheduleDetail.model_validate((yield from post(f"/schedules/{schedule_id}/resume")))


def run_schedule(schedule_id: str) -> Script[Created]:
    """Start a run of a schedule now and return its id."""
    return Created.model_validate((yield from post(f"/schedules/{schedule_id}/run")))


def delete_schedule(schedule_id: str) -> Script[None]:
    """Delete a schedule. Its runs stay."""
    yield from delete(f"/schedules/{schedule_id}")

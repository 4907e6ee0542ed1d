"""Calls about schedules."""

from __future__ import annotations

from typing import Any, TypedDict

from typing_extensions import Unpack

from wfdash.client.script import Script
from wfdash.client.sending import delete, get, if_unchanged, part, post, put
from wfdash.records.base import Created
from wfdash.records.schedules import ChangeSchedule, ScheduleDetail, SchedulePage, ScheduleSummary


class ScheduleChanges(TypedDict, total=False):
    """What can be changed of a schedule. ``missed``: skip, once or all; ``overlap``: allow or skip."""

    name: str
    cron: str
    zone: str
    message: Any
    missed: str
    overlap: str


def schedules(filter: str = "", *, workflow: str = "") -> Script[list[ScheduleSummary]]:  # noqa: A002
    """Return all schedules that a filter finds, the next to fire first."""
    found, after = list[ScheduleSummary](), ""
    while True:
        read = yield from get("/schedules", q=filter, workflow=workflow, after=after)
        page = SchedulePage.model_validate(read)
        found += page.items
        if not page.next:
            return found
        after = page.next


def schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Return a schedule."""
    return ScheduleDetail.model_validate((yield from get(f"/schedules/{part(schedule_id)}")))


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


def change_schedule(schedule: ScheduleDetail, **changes: Unpack[ScheduleChanges]) -> Script[ScheduleDetail]:
    """Change a schedule as it was read; its runs are started on behalf of the caller from then on.

    ``Outdated`` if someone else has changed it since: read it again. Secrets of its message are not read: give the
    whole ``message`` where it has some.
    """
    path, settings = f"/schedules/{part(schedule.id)}", schedule.model_dump(include=set(ChangeSchedule.model_fields))

    def as_read(found: Any) -> bool:
        return ScheduleDetail.model_validate(found).model_dump(include=set(settings)) == settings

    headers = yield from if_unchanged(path, as_read)
    return ScheduleDetail.model_validate((yield from put(path, {**settings, **changes}, headers=headers)))


def pause_schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Pause a schedule until it is resumed."""
    return ScheduleDetail.model_validate((yield from post(f"/schedules/{part(schedule_id)}/pause")))


def resume_schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Resume a schedule with its next time."""
    return ScheduleDetail.model_validate((yield from post(f"/schedules/{part(schedule_id)}/resume")))


def run_schedule(schedule_id: str) -> Script[Created]:
    """Start a run of a schedule now and return its id."""
    return Created.model_validate((yield from post(f"/schedules/{part(schedule_id)}/run")))


def delete_schedule(schedule_id: str) -> Script[None]:
    """Delete a schedule. Its runs stay."""
    yield from delete(f"/schedules/{part(schedule_id)}")

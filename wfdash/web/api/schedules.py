"""The API of schedules: list, create, change, pause, resume, delete, run now; and when an expression fires next."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Status

from checkpoints.models import Schedule
from wfdash.actions import schedules
from wfdash.actions.schedules import SchedulePlan, run_now
from wfdash.domain.cron import BadCron, parse
from wfdash.domain.errors import Invalid
from wfdash.queries.schedules import ScheduleRow, read_schedule, read_schedules
from wfdash.records.base import Created
from wfdash.records.schedules import ChangeSchedule, CreateSchedule, ScheduleDetail, SchedulePage, UpcomingTimes
from wfdash.web.api.params import Limit, if_match, key_of, viewer_of, with_etag

router = Router()


@router.get("/schedules", response=SchedulePage)
def list_schedules(request: HttpRequest, q: str = "", workflow: str = "", after: str = "", limit: Limit = 500) -> Any:
    """Return schedules, the next to fire first; ``q`` is the filter language of the page."""
    return read_schedules(viewer_of(request), workflow, q, cursor=after, limit=limit)


@router.post("/schedules", response={201: ScheduleDetail})
def create_schedule(request: HttpRequest, given: CreateSchedule) -> Any:
    """Create a schedule; its runs are started on behalf of the caller. 422 with errors per field."""
    plan = SchedulePlan(**given.model_dump(exclude={"workflow"}))
    made = schedules.create_schedule(viewer_of(request), given.workflow, plan, key=key_of(request))
    return Status(201, _found(request, made))


@router.get("/schedules/next", response=UpcomingTimes)
def get_coming(request: HttpRequest, cron: str, zone: str = "UTC") -> Any:
    """Return an expression as text, and its next five times. 422 with what is wrong with it, and where."""
    try:
        found = parse(cron, zone)
    except BadCron as error:
        raise Invalid.at(error.field, str(error)) from error
    return {"words": found.words, "upcoming": found.after(timezone.now(), 5)}


@router.get("/schedules/{schedule_id}", response=ScheduleDetail)
def get_schedule(request: HttpRequest, response: HttpResponse, schedule_id: str) -> Any:
    """Return one schedule. Its ``ETag`` is what ``If-Match`` takes for a change."""
    found = read_schedule(viewer_of(request), schedule_id)
    with_etag(response, _edited(found))
    return found


@router.put("/schedules/{schedule_id}", response=ScheduleDetail)
def change_schedule(request: HttpRequest, response: HttpResponse, schedule_id: str, given: ChangeSchedule) -> Any:
    """Change it; its runs are started on behalf of the caller from then on. ``If-Match`` takes its ``ETag``."""
    viewer, plan = viewer_of(request), SchedulePlan(**given.model_dump())

    def present() -> dict[str, Any]:
        return _edited(read_schedule(viewer, schedule_id))

    with if_match(request, Schedule.objects.filter(pk=schedule_id), present, required=True):
        changed = schedules.change_schedule(viewer, schedule_id, plan, key=key_of(request))
    found = _found(request, changed)
    with_etag(response, _edited(found))
    return found


@router.delete("/schedules/{schedule_id}", response={204: None})
def delete_schedule(request: HttpRequest, schedule_id: str) -> Any:
    """Delete it. Its runs stay. With ``If-Match`` only as it was read."""
    viewer = viewer_of(request)

    def present() -> dict[str, Any]:
        return _edited(read_schedule(viewer, schedule_id))

    with if_match(request, Schedule.objects.filter(pk=schedule_id), present):
        schedules.delete_schedule(viewer, schedule_id, key=key_of(request))
    return Status(204, None)


@router.post("/schedules/{schedule_id}/pause", response=ScheduleDetail)
def pause_schedule(request: HttpRequest, schedule_id: str) -> Any:
    """Pause it until it is resumed. 409 if it is paused."""
    return _found(request, schedules.pause_schedule(viewer_of(request), schedule_id, key=key_of(request)))


@router.post("/schedules/{schedule_id}/resume", response=ScheduleDetail)
def resume_schedule(request: HttpRequest, schedule_id: str) -> Any:
    """Resume it with its next time, on behalf of the caller. 409 if it is neither paused nor stopped."""
    return _found(request, schedules.resume_schedule(viewer_of(request), schedule_id, key=key_of(request)))


@router.post("/schedules/{schedule_id}/run", response={201: Created})
def run_schedule(request: HttpRequest, schedule_id: str) -> Any:
    """Start a run of it now, on behalf of the caller, and return the run's id."""
    run = run_now(viewer_of(request), schedule_id, key=key_of(request))
    return Status(201, {"id": run.pk, "n": run.n})


def _edited(found: ScheduleRow) -> dict[str, Any]:
    """Return what a change replaces."""
    return {name: getattr(found, name) for name in ChangeSchedule.model_fields}


def _found(request: HttpRequest, schedule: Schedule) -> ScheduleRow:
    return read_schedule(viewer_of(request), schedule.pk)

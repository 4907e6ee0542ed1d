"""The API of workflows: the catalogue, one workflow with its graph and schemas; statistics, what needs attention."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Header, Router, Status
from pydantic import Field

from wfdash.actions import statistics as actions
from wfdash.domain.errors import NotAllowed
from wfdash.queries.history import read_workflow_events, workflow_place
from wfdash.queries.statistics.figures import read_operations, read_statistics
from wfdash.queries.workflows import matching, read_code, read_versions, read_workflow, read_workflows
from wfdash.records.runs import WorkflowEvents
from wfdash.records.statistics import OperationsRecord, StatisticsRecord, TriageError
from wfdash.records.workflows import SourceFilePage, WorkflowDetail, WorkflowPage
from wfdash.web.api.params import STREAM, Limit, viewer_of
from wfdash.web.live.streams import follow_workflow, wants_stream

router = Router()
statistics = Router()

EventCursor = Annotated[str, Field(max_length=40)]
Days = Annotated[int, Field(ge=1, le=30)]
Resumed = Annotated[EventCursor | None, Header(alias="Last-Event-ID")]


@router.get("/workflows", response=WorkflowPage)
def list_workflows(request: HttpRequest, q: str = "") -> Any:
    """Return the catalogue by title, all of it; ``q`` is the filter language of its page."""
    return {"items": matching(read_workflows(viewer_of(request)), q)}


# Before the address of one workflow, which would take "/events" and "/code" for parts of the name.
@router.get("/workflows/{path:name}/events", response=WorkflowEvents, openapi_extra=STREAM)
def list_workflow_events(
    request: HttpRequest, name: str, after: EventCursor = "", limit: Limit = 500, last_event_id: Resumed = None
) -> Any:
    """Return the events of all runs of a workflow behind a cursor, in one order; ``now`` is the cursor behind what has
    happened. With ``Accept: text/event-stream`` they are streamed: those after ``Last-Event-ID`` or ``after``, then
    what follows.
    """
    viewer = viewer_of(request)
    if not wants_stream(request):
        return read_workflow_events(viewer, name, after=after, limit=limit)
    if last_event_id:
        place = workflow_place(viewer, name, last_event_id, field="Last-Event-ID")
    else:
        place = workflow_place(viewer, name, after)
    return follow_workflow(request, viewer, name, after=place)


@router.get("/workflows/{path:name}/code", response=SourceFilePage)
def get_code(request: HttpRequest, name: str) -> Any:
    """Return the code of a workflow, for authors, operators and admins of it."""
    files = read_code(viewer_of(request), name)
    shown = [
        {"path": str(one.path), "text": one.text, "steps": one.steps, "changed": one.has_changed()} for one in files
    ]
    return {"items": shown}


@router.get("/workflows/{path:name}", response=WorkflowDetail)
def get_workflow(request: HttpRequest, name: str) -> Any:
    """Return a workflow with its graph, its versions, and the schemas of what it takes and gives."""
    viewer = viewer_of(request)
    row = read_workflow(viewer, name)
    versions = read_versions(viewer, row.name)
    described = {**vars(row.description), **vars(row), "active": row.active, "failed": row.failed, "title": row.title}
    return {**described, "versions": versions}


# Counts, and what needs attention.


@statistics.get("/statistics", response=StatisticsRecord)
def get_statistics(request: HttpRequest, days: Days = 7, workflow: str = "") -> Any:
    """Return counts, durations and decisions of the last days (1: of the last 24 hours), in UTC, and current counts."""
    return read_statistics(viewer_of(request), days, workflow)


@statistics.put("/operations/errors", response={204: None})
def triage_error(request: HttpRequest, given: TriageError) -> Any:
    """Assign an error of a workflow that you operate, or mute it. 422 at ``assignee``; 404 for an error that is not
    known.
    """
    actions.triage_error(viewer_of(request), **given.model_dump())
    return Status(204, None)


@statistics.get("/operations", response=OperationsRecord)
def get_operations(request: HttpRequest, days: Days = 1, assignee: str = "") -> Any:
    """Return what needs attention in the workflows you operate: failures of the last days, held and silent runs,
    overdue requests, workers. ``assignee``: only errors of this person, ``me`` or ``none``.
    """
    viewer = viewer_of(request)
    if not viewer.may_anywhere("operate"):
        raise NotAllowed("You operate no workflow. Ask an admin of the workflow")
    return read_operations(viewer, timedelta(days=days), assignee)

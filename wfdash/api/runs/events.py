"""The API of a run's events: pages of JSON, and an event stream at the same address."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Header, Router

from wfdash.api.auth import viewer_of
from wfdash.api.params import STREAM, Limit, Seq
from wfdash.live.streams.run_stream import follow_run
from wfdash.live.streams.stream import wants_stream
from wfdash.queries.history.events import check_cursor, events_after
from wfdash.records.runs import RunEvents

router = Router()

Resumed = Annotated[Seq | None, Header(alias="Last-Event-ID")]


@router.get("/runs/{run_id}/events", response=RunEvents, openapi_extra=STREAM)
def list_events(
    request: HttpRequest, run_id: str, after: Seq = 0, limit: Limit = 500, last_event_id: Resumed = None
) -> Any:
    """Return events with ``seq > after``, in order. With ``Accept: text/event-stream`` they are streamed: those after
    ``Last-Event-ID`` or ``after``, then what follows, until the run has ended.
    """
    viewer = viewer_of(request)
    if not wants_stream(request):
        return events_after(viewer, run_id, after=after, limit=limit)
    cursor = after if last_event_id is None else last_event_id
    check_cursor(viewer, run_id, cursor)
    return follow_run(request, viewer, run_id, after=cursor)

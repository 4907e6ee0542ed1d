"""The API of a run's events."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from wfdash import queries
from wfdash.api.auth import viewer_of
from wfdash.api.params import Limit, Seq
from wfdash.records import EventRecord

router = Router()


@router.get("/runs/{run_id}/events", response=list[EventRecord])
def list_events(request: HttpRequest, run_id: str, after: Seq = 0, limit: Limit = 500) -> Any:
    """Return events with ``seq > after``, in order."""
    return queries.events(viewer_of(request), run_id, after=after, limit=limit)

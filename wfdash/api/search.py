"""The API of the search over everything."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from wfdash.api.auth import viewer_of
from wfdash.queries.palette.everything import search_everything
from wfdash.records.search import FoundEverything

router = Router()


@router.get("/search", response=FoundEverything)
def search(request: HttpRequest, q: str) -> Any:
    """Return what an id or words lead to. What cannot be understood finds nothing."""
    found = search_everything(viewer_of(request), q)
    return {
        "runs": [*found.ids_of_runs, *found.runs],
        "requests": [*found.ids_of_requests, *found.requests],
        "workflows": found.workflows,
        "checkpoints": found.checkpoints,
        "people": found.people,
    }

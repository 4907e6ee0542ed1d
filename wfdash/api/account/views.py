"""The API of saved views."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Status

from wfdash import actions, queries
from wfdash.api.auth import viewer_of
from wfdash.api.once import once
from wfdash.records import ChangeView, Created, SavedViewPage, SavedViewRecord, SaveView

router = Router()


@router.get("/views", response=SavedViewPage)
def list_views(request: HttpRequest, page: Literal["inbox", "runs"] = "inbox") -> Any:
    """Return the saved views of a list."""
    return {"items": queries.views(viewer_of(request), page)}


@router.post("/views", response={201: Created})
def create_view(request: HttpRequest, given: SaveView) -> Any:
    """Save a filter under a name. 422 for an invalid filter, or a name that you have already."""
    viewer, rest = viewer_of(request), given.model_dump(exclude={"name", "query"})
    found = once(request, "view", given, lambda: actions.save_view(viewer, given.name, given.query, **rest).pk)
    return Status(201, {"id": found})


@router.get("/views/{view_id}", response=SavedViewRecord)
def get_view(request: HttpRequest, view_id: str) -> Any:
    """Return one view."""
    return queries.view(viewer_of(request), view_id)


@router.put("/views/{view_id}", response=SavedViewRecord)
def change_view(request: HttpRequest, view_id: str, given: ChangeView) -> Any:
    """Rename a view of yours, change its filter, share it or no longer."""
    viewer = viewer_of(request)
    actions.change_view(viewer, view_id, **given.model_dump())
    return queries.view(viewer, view_id)


@router.delete("/views/{view_id}", response={204: None})
def delete_view(request: HttpRequest, view_id: str) -> Any:
    """Delete a view of yours."""
    actions.delete_view(viewer_of(request), view_id)
    return Status(204, None)

"""The API of saved views."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from checkpoints.models import SavedView
from wfdash.actions.account import saved_views
from wfdash.actions.account.saved_views import save_view
from wfdash.api.auth import viewer_of
from wfdash.api.etags import if_match, with_etag
from wfdash.api.once import once
from wfdash.queries.account.saved_views import ViewRow, read_view, read_views
from wfdash.records.account import ChangeView, SavedViewPage, SavedViewRecord, SaveView
from wfdash.records.base import Created

router = Router()


@router.get("/views", response=SavedViewPage)
def list_views(request: HttpRequest, page: Literal["inbox", "runs"] = "inbox") -> Any:
    """Return the saved views of a list."""
    return {"items": read_views(viewer_of(request), page)}


@router.post("/views", response={201: Created})
def create_view(request: HttpRequest, given: SaveView) -> Any:
    """Save a filter under a name. 422 for an invalid filter, or a name that you have already."""
    viewer, rest = viewer_of(request), given.model_dump(exclude={"name", "query"})

    def act() -> dict[str, Any]:
        return {"id": save_view(viewer, given.name, given.query, **rest).pk}

    return Status(201, once(request, "view", given.model_dump(), act))


@router.get("/views/{view_id}", response=SavedViewRecord)
def get_view(request: HttpRequest, response: HttpResponse, view_id: str) -> Any:
    """Return one view. Its ``ETag`` is what ``If-Match`` takes for a change."""
    found = read_view(viewer_of(request), view_id)
    with_etag(response, _edited(found))
    return found


@router.put("/views/{view_id}", response=SavedViewRecord)
def change_view(request: HttpRequest, response: HttpResponse, view_id: str, given: ChangeView) -> Any:
    """Rename a view of yours, change its filter, share it or no longer. ``If-Match``: the ``ETag`` that was read."""
    viewer = viewer_of(request)
    rows = SavedView.objects.filter(pk=view_id)
    with if_match(request, rows, lambda: _edited(read_view(viewer, view_id)), required=True):
        saved_views.change_view(viewer, view_id, **given.model_dump())
    found = read_view(viewer, view_id)
    with_etag(response, _edited(found))
    return found


@router.delete("/views/{view_id}", response={204: None})
def delete_view(request: HttpRequest, view_id: str) -> Any:
    """Delete a view of yours. With ``If-Match`` only as it was read."""
    viewer = viewer_of(request)
    with if_match(request, SavedView.objects.filter(pk=view_id), lambda: _edited(read_view(viewer, view_id))):
        saved_views.delete_view(viewer, view_id)
    return Status(204, None)


def _edited(found: ViewRow) -> dict[str, Any]:
    """Return what a change replaces."""
    return {name: getattr(found, name) for name in ChangeView.model_fields}

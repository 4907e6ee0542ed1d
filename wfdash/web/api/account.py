"""The API of what belongs to the caller."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from checkpoints.models import SavedView
from wfdash.actions import account
from wfdash.actions.account import read_notices, save_view, set_absence
from wfdash.queries.account import ViewRow, count_unread, notices, read_view, read_views
from wfdash.queries.palette import search_everything
from wfdash.queries.requests.request import read_absences
from wfdash.records.account import (
    AbsencePage,
    ChangeView,
    Me,
    NotificationPage,
    ReadCount,
    ReadNotifications,
    SavedViewPage,
    SavedViewRecord,
    SaveView,
    SetAbsence,
)
from wfdash.records.base import Created
from wfdash.records.search import FoundEverything
from wfdash.web.api.params import Limit, Number, if_match, once, viewer_of, with_etag

router = Router()


@router.get("/me", response=Me)
def get_me(request: HttpRequest) -> Any:
    """Return who calls and what they may do; with a token that is narrower, what the token allows."""
    viewer = viewer_of(request)
    rights = [{"workflow": name, "verbs": sorted(verbs)} for name, verbs in sorted(viewer.rights.items())]
    absent = [one.name for one in viewer.acts_for]
    named = {"name": viewer.name, "groups": sorted(viewer.groups), "token": viewer.token}
    return {**named, "rights": rights, "acts_for": absent, "through_agents": viewer.through_agents}


@router.get("/notifications", response=NotificationPage)
def list_notifications(request: HttpRequest, after: str = "", limit: Limit = 30) -> Any:
    """Return your notifications, newest first."""
    viewer = viewer_of(request)
    found = notices(viewer, before=after, limit=limit)
    return {"items": found.items, "next": found.older, "unread": count_unread(viewer)}


@router.post("/notifications/read", response=ReadCount)
def read_notifications(request: HttpRequest, given: ReadNotifications) -> Any:
    """Mark notifications as read: the given ones, or all. Doing it twice changes nothing."""
    viewer = viewer_of(request)
    return once(request, "read", given.ids, lambda: {"read": read_notices(viewer, given.ids)})


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
        account.change_view(viewer, view_id, **given.model_dump())
    found = read_view(viewer, view_id)
    with_etag(response, _edited(found))
    return found


@router.delete("/views/{view_id}", response={204: None})
def delete_view(request: HttpRequest, view_id: str) -> Any:
    """Delete a view of yours. With ``If-Match`` only as it was read."""
    viewer = viewer_of(request)
    with if_match(request, SavedView.objects.filter(pk=view_id), lambda: _edited(read_view(viewer, view_id))):
        account.delete_view(viewer, view_id)
    return Status(204, None)


def _edited(found: ViewRow) -> dict[str, Any]:
    """Return what a change replaces."""
    return {name: getattr(found, name) for name in ChangeView.model_fields}


# The API of absences: who answers for you while you are away.


@router.get("/absences", response=AbsencePage)
def list_absences(request: HttpRequest) -> Any:
    """Return your absences, and those in which you are the delegate."""
    mine, others = read_absences(viewer_of(request))
    return {"items": [*mine, *others]}


@router.post("/absences", response={201: Created})
def create_absence(request: HttpRequest, given: SetAbsence) -> Any:
    """Name a delegate for a time. 422 at ``delegate``, ``since`` or ``until``."""
    viewer = viewer_of(request)

    def act() -> dict[str, Any]:
        return {"id": str(set_absence(viewer, given.delegate, given.since, given.until).pk)}

    return Status(201, once(request, "away", given.model_dump(mode="json"), act))


@router.post("/absences/{absence_id}/end", response={204: None})
def end_absence(request: HttpRequest, absence_id: Number) -> Any:
    """End an absence now; one that has not started is deleted. 404 once it is over."""
    once(request, "back", [absence_id], lambda: account.end_absence(viewer_of(request), absence_id))
    return Status(204, None)


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

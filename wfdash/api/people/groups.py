"""The API of groups and their members. For admins of every workflow."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from wfdash.access.viewer import Viewer
from wfdash.actions.people import groups
from wfdash.api.auth import viewer_of
from wfdash.api.etags import if_match, with_etag
from wfdash.api.once import once
from wfdash.queries.people import groups as group_queries
from wfdash.records.people import GroupDetail, GroupPage, MakeGroup, RenameGroup

router = Router()


@router.get("/groups", response=GroupPage)
def list_groups(request: HttpRequest) -> Any:
    """Return every group by name."""
    return {"items": group_queries.groups(viewer_of(request))}


@router.post("/groups", response={201: GroupDetail})
def make_group(request: HttpRequest, given: MakeGroup) -> Any:
    """Make a group. 422 at ``name`` or ``members``."""
    viewer = viewer_of(request)

    def act() -> dict[str, Any]:
        return {"id": groups.make_group(viewer, given.name, members=given.members).name}

    made = once(request, "group", given.model_dump(), act)
    return Status(201, _group(viewer, str(made["id"])))


@router.get("/groups/{name}", response=GroupDetail)
def get_group(request: HttpRequest, response: HttpResponse, name: str) -> Any:
    """Return a group with its members. Its ``ETag`` is what ``If-Match`` takes."""
    found = _group(viewer_of(request), name)
    with_etag(response, found)
    return found


@router.put("/groups/{name}", response=GroupDetail)
def rename_group(request: HttpRequest, name: str, given: RenameGroup) -> Any:
    """Rename a group. 409 if policies name it: they would then mean no one. With ``If-Match`` only as it was read."""
    viewer = viewer_of(request)
    with if_match(request, Group.objects.filter(name=name), lambda: _group(viewer, name)):
        renamed = groups.rename_group(viewer, name, given.name).name
    return _group(viewer, renamed)


@router.delete("/groups/{name}", response={204: None})
def delete_group(request: HttpRequest, name: str) -> Any:
    """Delete a group with its roles; with ``If-Match`` only as it was read. 409 if policies name it, or if no admin
    would be left.
    """
    viewer = viewer_of(request)
    with if_match(request, Group.objects.filter(name=name), lambda: _group(viewer, name)):
        groups.delete_group(viewer, name)
    return Status(204, None)


@router.put("/groups/{name}/members/{person}", response={204: None})
def add_member(request: HttpRequest, name: str, person: str) -> Any:
    """Add an active person. 422 at ``person``, also for a member."""
    groups.add_member(viewer_of(request), name, person)
    return Status(204, None)


@router.delete("/groups/{name}/members/{person}", response={204: None})
def remove_member(request: HttpRequest, name: str, person: str) -> Any:
    """Remove a member. 409 if no admin would be left."""
    groups.remove_member(viewer_of(request), name, person)
    return Status(204, None)


def _group(viewer: Viewer, name: str) -> dict[str, Any]:
    found = group_queries.group(viewer, name)
    return {**vars(found.row), "people": [member for member, _ in found.members], "more": found.more}

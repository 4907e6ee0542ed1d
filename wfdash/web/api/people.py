"""The API of people: accounts, groups, roles, and who may do what."""

from __future__ import annotations

from typing import Any, Literal

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from wfdash.access.viewer import Viewer
from wfdash.actions.people import accounts, roles
from wfdash.queries import people
from wfdash.queries.people import QuestionAccess, access_after, person
from wfdash.records.base import Created
from wfdash.records.people import (
    AccessPage,
    GrantRole,
    GroupDetail,
    GroupPage,
    MakeGroup,
    PersonPage,
    PersonSummary,
    RenameGroup,
)
from wfdash.web.api.params import Limit, Number, if_match, once, viewer_of, with_etag

# The API of accounts. Invitations and sign-in links are credentials of a person, and made on pages only.

router = Router()
Shown = Literal["", "all", "off", "away", "open", "never", "service"]


@router.get("/people", response=PersonPage)
def list_people(
    request: HttpRequest,
    q: str = "",
    show: Shown = "",
    after: str = "",
    limit: Limit = 50,
) -> Any:
    """Return people by name: those with all these words in name, address, groups or roles. For admins."""
    found, count = people.people_after(viewer_of(request), q, show=show, cursor=after, limit=limit)
    return {"items": found.items, "next": found.next, "found": count}


@router.get("/people/{name}", response=PersonSummary)
def get_person(request: HttpRequest, name: str) -> Any:
    """Return one person. For admins, and yourself."""
    return person(viewer_of(request), name).row


@router.post("/people/{name}/deactivate", response={204: None})
def deactivate_person(request: HttpRequest, name: str) -> Any:
    """Deactivate an account: no one can sign in with it, and its sessions end. 409 if it is deactivated."""
    once(request, "deactivate", [name], lambda: accounts.deactivate_person(viewer_of(request), name))
    return Status(204, None)


@router.post("/people/{name}/reactivate", response={204: None})
def reactivate_person(request: HttpRequest, name: str) -> Any:
    """Let an account be used again. 409 if it is active."""
    once(request, "reactivate", [name], lambda: accounts.reactivate_person(viewer_of(request), name))
    return Status(204, None)


@router.post("/people/{name}/end-sessions", response={204: None})
def end_sessions(request: HttpRequest, name: str) -> Any:
    """Sign another person out everywhere, and end their unused sign-in links."""
    viewer = viewer_of(request)
    once(request, "end sessions", [name], lambda: {"ended": accounts.end_sessions_of(viewer, name)})
    return Status(204, None)


# The API of groups and their members. For admins of every workflow.


@router.get("/groups", response=GroupPage)
def list_groups(request: HttpRequest) -> Any:
    """Return every group by name."""
    return {"items": people.groups(viewer_of(request))}


@router.post("/groups", response={201: GroupDetail})
def make_group(request: HttpRequest, given: MakeGroup) -> Any:
    """Make a group. 422 at ``name`` or ``members``."""
    viewer = viewer_of(request)

    def act() -> dict[str, Any]:
        return {"id": roles.make_group(viewer, given.name, members=given.members).name}

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
        renamed = roles.rename_group(viewer, name, given.name).name
    return _group(viewer, renamed)


@router.delete("/groups/{name}", response={204: None})
def delete_group(request: HttpRequest, name: str) -> Any:
    """Delete a group with its roles; with ``If-Match`` only as it was read. 409 if policies name it, or if no admin
    would be left.
    """
    viewer = viewer_of(request)
    with if_match(request, Group.objects.filter(name=name), lambda: _group(viewer, name)):
        roles.delete_group(viewer, name)
    return Status(204, None)


@router.put("/groups/{name}/members/{person}", response={204: None})
def add_member(request: HttpRequest, name: str, person: str) -> Any:
    """Add an active person. 422 at ``person``, also for a member."""
    roles.add_member(viewer_of(request), name, person)
    return Status(204, None)


@router.delete("/groups/{name}/members/{person}", response={204: None})
def remove_member(request: HttpRequest, name: str, person: str) -> Any:
    """Remove a member. 409 if no admin would be left."""
    roles.remove_member(viewer_of(request), name, person)
    return Status(204, None)


def _group(viewer: Viewer, name: str) -> dict[str, Any]:
    found = people.group(viewer, name)
    return {**vars(found.row), "people": [member for member, _ in found.members], "more": found.more}


# The API of roles: who may do what in a workflow and why, grants given and revoked. For its admins.


@router.get("/access/{path:workflow}", response=AccessPage)
def get_access(request: HttpRequest, workflow: str, after: str = "", limit: Limit = 100) -> Any:
    """Return the people of a workflow by name with their rights, and who may answer each of its questions."""
    found, questions = access_after(viewer_of(request), workflow, cursor=after, limit=limit)
    asked = [_question(one) for one in questions]
    return {"items": found.items, "next": found.next, "workflow": workflow, "questions": asked}


@router.post("/grants", response={201: Created})
def grant_role(request: HttpRequest, given: GrantRole) -> Any:
    """Give a role. 422 with errors per field, also where they have it already."""
    viewer = viewer_of(request)
    named = given.model_dump()
    return Status(201, once(request, "grant", named, lambda: {"id": str(roles.grant_role(viewer, **named).pk)}))


@router.delete("/grants/{grant_id}", response={204: None})
def revoke_role(request: HttpRequest, grant_id: Number) -> Any:
    """Take a grant away. 409 for the last admin of every workflow."""
    roles.revoke_role(viewer_of(request), grant_id)
    return Status(204, None)


def _question(one: QuestionAccess) -> dict[str, Any]:
    asked = one.question
    named = {name: [person for person, _ in getattr(one, name)] for name in ("may", "override", "excluded")}
    return {"step": asked.step, "by": asked.by, "not_by": asked.not_by, "need": asked.need, **named}

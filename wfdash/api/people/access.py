"""The API of roles: who may do what in a workflow and why, grants given and revoked. For its admins."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from wfdash.actions.people import grants
from wfdash.api.auth import viewer_of
from wfdash.api.once import once
from wfdash.api.params import Limit, Number
from wfdash.queries.people.matrix import QuestionAccess, access_after
from wfdash.records.base import Created
from wfdash.records.people import AccessPage, GrantRole

router = Router()


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
    return Status(201, once(request, "grant", named, lambda: {"id": str(grants.grant_role(viewer, **named).pk)}))


@router.delete("/grants/{grant_id}", response={204: None})
def revoke_role(request: HttpRequest, grant_id: Number) -> Any:
    """Take a grant away. 409 for the last admin of every workflow."""
    grants.revoke_role(viewer_of(request), grant_id)
    return Status(204, None)


def _question(one: QuestionAccess) -> dict[str, Any]:
    asked = one.question
    named = {name: [person for person, _ in getattr(one, name)] for name in ("may", "override", "excluded")}
    return {"step": asked.step, "by": asked.by, "not_by": asked.not_by, "need": asked.need, **named}

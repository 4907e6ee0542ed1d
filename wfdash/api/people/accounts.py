"""The API of accounts. Invitations and sign-in links are credentials of a person, and made on pages only."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Status

from wfdash.actions.people import accounts, security
from wfdash.api.auth import viewer_of
from wfdash.api.once import once
from wfdash.api.params import Limit
from wfdash.queries.people import people
from wfdash.queries.people.person import person
from wfdash.records.people import PersonPage, PersonSummary

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
    once(request, "end sessions", [name], lambda: {"ended": security.end_sessions_of(viewer, name)})
    return Status(204, None)

"""Several requests assigned to one person, each in its own transaction and with its own audit entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checkpoints.content.encryption import Locked
from checkpoints.errors import Damaged
from checkpoints.models import HumanRequest
from checkpoints.rules import card_subject
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.collaboration import assign_request
from wfdash.errors import AlreadyAnswered, Invalid, NoLongerOpen, NotAllowed, NotFound, TooOften

MOST_ASSIGNED = 200


@dataclass(frozen=True, kw_only=True)
class Assigned:
    """What became of one request. ``problem``: why its assignee is unchanged, empty if it was assigned."""

    request: str
    subject: str
    problem: str = ""


def assign_requests(viewer: Viewer, requests: Iterable[str], to: str | None, *, key: str | None) -> list[Assigned]:
    """Assign requests to a user name, or to no one, and return what became of each; one refusal stops no other.

    ``key``: sent twice, it counts once.
    """
    wanted = list(dict.fromkeys(requests))
    if len(wanted) > MOST_ASSIGNED:
        raise Invalid([{"loc": ["request"], "msg": f"Assign at most {MOST_ASSIGNED} at once"}])
    return [_assign_one(viewer, one, to, f"{key} {one}" if key else None) for one in wanted]


def _assign_one(viewer: Viewer, request_id: str, to: str | None, key: str | None) -> Assigned:
    found = HumanRequest.objects.filter(viewer.scope("see") | viewer.started(), pk=request_id).first()
    if found is None:
        return Assigned(request=request_id, subject="", problem="It no longer exists")
    subject, problem = found.step, ""
    try:
        subject = card_subject(found.card, found.step)
        assign_request(viewer, request_id, to, key=key)
    except (Damaged, Locked):
        problem = "It cannot be read"
    except Invalid as error:
        problem = str(error.errors[0]["msg"])
    except (AlreadyAnswered, NoLongerOpen, NotAllowed, NotFound, TooOften) as error:
        problem = str(error)
    return Assigned(request=request_id, subject=subject, problem=problem)

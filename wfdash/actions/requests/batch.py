"""Several requests at once: assigned, or decided alike, each in its own transaction and with its own audit entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checkpoints.content.encryption import Locked
from checkpoints.errors import Damaged
from checkpoints.models import HumanRequest, Reply
from checkpoints.records import Json
from checkpoints.rules import card_subject
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.requests.collaboration import assign_request
from wfdash.domain import json_patch
from wfdash.domain.errors import (
    AlreadyAnswered,
    Changed,
    Invalid,
    NoLongerOpen,
    NotAllowed,
    NotFound,
    TooOften,
    WrongState,
)
from wfdash.questions.policy import alone_because
from wfdash.values.schemas.work import bounded_work

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


MAX_DECIDED_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result for one request. ``problem``: why it is unchanged, empty if the answer was accepted."""

    request: str
    subject: str
    reply: Reply | None = None
    problem: str = ""
    kind: str = ""
    """The error's class: Changed, AlreadyAnswered, NotAllowed ..."""


def answer_batch(
    viewer: Viewer,
    chosen: Iterable[tuple[str, str]],
    value: Json,
    *,
    verdict: str = "",
    page: str = "",
    key: str | None = None,
) -> list[Outcome]:
    """Give several requests the same answer and return the outcome of each. ``chosen``: request id and fingerprint
    shown.

    Each can be undone, and each is refused separately: requests answered or changed in the meantime stay as they are,
    and so do those of high risk or with a policy that forbids batches. ``key``: sent twice, the batch counts once and
    has the same outcome.
    """
    wanted = dict(chosen)
    if not wanted:
        raise Invalid([{"loc": ["tick"], "msg": "Select at least one request"}])
    if len(wanted) > MAX_DECIDED_AT_ONCE:
        raise Invalid([{"loc": ["tick"], "msg": f"Decide at most {MAX_DECIDED_AT_ONCE} at once"}])
    if json_patch.comments_in(value):
        raise Invalid([{"loc": [json_patch.FIELD], "msg": "Comment on lines of one request, not of several"}])
    with bounded_work():
        return [
            _answer_one(viewer, one, seen, value, verdict, page, f"{key} {one}" if key else None)
            for one, seen in wanted.items()
        ]


def undo_batch(viewer: Viewer, requests: Iterable[str], *, key: str | None = None) -> tuple[int, int]:
    """Undo one's answers to these requests. Returns how many were undone, and for how many it was too late.

    ``key``: sent twice, it counts once.
    """
    done = late = 0
    for request_id in requests:
        try:
            undo_answer(viewer, request_id, key=f"{key} {request_id}" if key else None)
            done += 1
        except (WrongState, NotFound):
            late += 1
    return done, late


def _answer_one(
    viewer: Viewer, request_id: str, seen: str, value: Json, verdict: str, page: str, key: str | None
) -> Outcome:
    found = HumanRequest.objects.filter(viewer.scope("see"), pk=request_id).first()
    if found is None:
        return Outcome(request=request_id, subject="", problem="It no longer exists", kind="NotFound")
    subject = card_subject(found.card, found.step)
    try:
        # Refuse requests that may not be decided in batches, and those whose own row was not shown.
        if because := alone_because(found.risk, found.policy, found.card):
            raise NotAllowed(because)
        if not seen:
            raise Invalid([{"loc": ["tick"], "msg": "Not in the table"}])
        reply = answer_request(
            viewer, request_id, value, verdict=verdict, seen=seen, undo=True, via="batch", page=page, key=key
        )
    except Changed:
        words = "It changed after you opened the table. Review it again"
        return Outcome(request=request_id, subject=subject, problem=words, kind="Changed")
    except Invalid as error:
        words = error.summary
        return Outcome(request=request_id, subject=subject, problem=words, kind="Invalid")
    except (AlreadyAnswered, NoLongerOpen, NotAllowed, NotFound) as error:
        return Outcome(request=request_id, subject=subject, problem=str(error), kind=type(error).__name__)
    return Outcome(request=request_id, subject=subject, reply=reply)

"""Verbs of people who work on the same request: who has it open, who takes it, whose it is, half-filled answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from checkpoints.canonical import dumps
from checkpoints.models import OPEN, Draft, HumanRequest, Presence
from checkpoints.orm import write
from checkpoints.records import Phase
from wfdash.access import Viewer
from wfdash.desk import audit
from wfdash.desk.common import append_request_event, find_request, ring_request, tell_inbox
from wfdash.desk.keys import once
from wfdash.desk.tell import tell
from wfdash.directory import people_who
from wfdash.errors import Invalid, NoLongerOpen, NotAllowed, WrongState

HERE = timedelta(seconds=45)
"""How long somebody counts as present without a sign of life."""
MOST_DRAFT = 200_000
"""Characters of a draft."""


def watch_request(viewer: Viewer, request_id: str, *, typing: bool = False) -> datetime:
    """Note that this person has the request open now; renew it every 15 s. Others hear of it if it is news.

    Returns the moment that was noted, for ``leave_request``.
    """
    with write():
        request = find_request(viewer, request_id)
        now = timezone.now()
        before = Presence.objects.filter(request=request, user=viewer.user).first()
        fresh = before is not None and before.seen > now - HERE
        typed = {"typing": now if typing else None}
        begun = {} if fresh else {"since": now, "taken": None}
        Presence.objects.update_or_create(
            request=request,
            user=viewer.user,
            defaults={"seen": now, **typed, **begun},
            create_defaults=_new(now, typed),
        )
        if not fresh or (before is not None and (before.typing is not None) != typing):
            ring_request(request.workflow, request.pk, "people")
    return now


def leave_request(viewer: Viewer, request_id: str, seen: datetime | None = None) -> None:
    """Note that this person has closed the page: their soft claim ends at once. That they saw it stays.

    ``seen``: the last moment this page noted. If another page of theirs noted a later one, nothing is left.
    """
    with write():
        request = find_request(viewer, request_id)
        now = timezone.now()
        mine = Presence.objects.filter(request=request, user=viewer.user, seen__gt=now - HERE)
        mine = mine.filter(seen__lte=seen) if seen else mine
        if mine.update(seen=now - HERE, typing=None):
            ring_request(request.workflow, request.pk, "people")


def take_over(viewer: Viewer, request_id: str) -> None:
    """Take the request from those who have it open, and tell them so. They can still answer: a claim is soft."""
    with write():
        request = find_request(viewer, request_id)
        refuse_unless_reviewer(viewer, request)
        refuse_unless_open(request)
        now = timezone.now()
        here = Presence.objects.filter(request=request, seen__gt=now - HERE)
        others = [row.user for row in here.exclude(user=viewer.user).select_related("user")]
        taken = {"seen": now, "taken": now}
        Presence.objects.update_or_create(
            request=request, user=viewer.user, defaults=taken, create_defaults=_new(now, taken)
        )
        tell("taken", request, others, facts={"by": viewer.name})
        audit.record_request(viewer, "take", request, {"from": sorted(other.get_username() for other in others)})
        ring_request(request.workflow, request.pk, "people")


def assign_request(viewer: Viewer, request_id: str, to: str | None, *, key: str | None = None) -> HumanRequest:
    """Make the request somebody's own (a user name), or nobody's. They are told; others may still answer.

    ``Invalid`` at ``to`` for somebody who may not answer it; an operator may also name those it is not addressed to.
    """
    with write(), once(viewer, key, "assign", [request_id, to]) as deed:
        request = find_request(viewer, request_id)
        if deed.before is not None:
            return request
        if request.assignee_id != viewer.user.pk:
            refuse_unless_reviewer(viewer, request)
        refuse_unless_open(request)
        target = _assignable(viewer, request, to) if to else None
        HumanRequest.objects.filter(OPEN, pk=request.pk).update(assignee=target.user if target else None)
        happened(viewer, request, "request.assigned", {"to": to or ""})
        if target:
            tell("assigned", request, [target.user], facts={"by": viewer.name})
        audit.record_request(viewer, "assign", request, {"to": to or "", "from": _name(request.assignee)})
        request.assignee = target.user if target else None
    return request


def save_draft(viewer: Viewer, request_id: str, fields: Mapping[str, Sequence[str]]) -> Draft:
    """Keep a half-filled answer: the fields as the browser would send them. ``Invalid`` if they are too much."""
    kept = {str(name): [str(value) for value in values] for name, values in fields.items()}
    if len(dumps(kept)) > MOST_DRAFT:
        raise Invalid([{"loc": [], "msg": "This is too much for a draft: send it, or keep it elsewhere"}])
    with write():
        request = find_request(viewer, request_id)
        facts = {"fields": kept, "at": timezone.now()}
        draft, _ = Draft.objects.update_or_create(request=request, user=viewer.user, defaults=facts)
    return draft


def drop_draft(viewer: Viewer, request_id: str) -> None:
    """Throw one's own half-filled answer away."""
    with write():
        Draft.objects.filter(request=find_request(viewer, request_id), user=viewer.user).delete()


def refuse_unless_open(request: HumanRequest) -> None:
    """Raise ``NoLongerOpen`` if it was answered or closed, ``WrongState`` while an answer may still be taken back."""
    if request.answered is not None or request.closed is not None:
        raise NoLongerOpen("This request was answered or closed already", closed_as=request.closed_as)
    if request.settles is not None:
        raise WrongState("Somebody has just answered this; it may still be taken back")
    if request.run.phase in {Phase.CANCELLED, Phase.COMPLETED}:
        raise NoLongerOpen(f"The run is {request.run.phase}")


def refuse_unless_reviewer(viewer: Viewer, request: HumanRequest) -> None:
    """Raise ``NotAllowed`` for whoever may neither answer this request nor operate its workflow."""
    may = viewer.may("answer", request.workflow) and viewer.addressed(request.by, request.not_by, requester_of(request))
    if not may and not viewer.may("operate", request.workflow):
        raise NotAllowed("Only those who may answer this request can do that, and operators")


def requester_of(request: HumanRequest) -> str | None:
    """Return who started the run."""
    return _name(request.run.created_by) or None


def happened(viewer: Viewer, request: HumanRequest, kind: str, more: Mapping[str, Any]) -> None:
    """Append an event about the request to its run, and ring for lists."""
    append_request_event(request, kind, by=viewer.name, **more)
    tell_inbox(request.workflow)


def _new(now: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"since": now, "seen": now, **more}


def _assignable(viewer: Viewer, request: HumanRequest, name: str) -> Viewer:
    found = people_who("answer", request.workflow, names=[name])
    by = () if viewer.may("operate", request.workflow) else request.by
    if not found or not found[0].addressed(by, request.not_by, requester_of(request)):
        raise Invalid([{"loc": ["to"], "msg": f"{name} may not answer this request: choose somebody who may"}])
    return found[0]


def _name(user: Any) -> str:
    return user.get_username() if user else ""

"""Several people on one request: who has it open, take-over, assignment, drafts of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from checkpoints.content.canonical_json import dumps
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import OPEN, Draft, HumanRequest, Presence
from checkpoints.records import Phase
from wfdash.access.directory import is_service, people_who
from wfdash.access.viewer import Viewer, origin_of
from wfdash.actions import rate_limit
from wfdash.actions.audit import entries
from wfdash.actions.common import append_request_event, find_request, lock_request, notify_inbox, notify_request
from wfdash.actions.idempotency import idempotent
from wfdash.actions.requests.decidability import update_decidability
from wfdash.errors import Invalid, NoLongerOpen, NotAllowed, WrongState
from wfdash.notifications.write import notify
from wfdash.questions.policy import Policy

HERE = timedelta(seconds=45)
"""How long a person counts as present without a heartbeat of the page."""
RETURN = timedelta(seconds=10)
"""Within this time after leaving, a person who returns has their claim again: they went to another page of it."""
MOST_DRAFT = 200_000
"""Characters of a draft."""
MOST_DRAFTS = 200
"""Drafts per person. Those for closed requests are removed first."""


def watch_request(viewer: Viewer, request_id: str, *, typing: bool = False) -> datetime:
    """Record that this person has the request open; the page renews it every 15 s. Others are notified when it is new.

    Returns the recorded time, for ``leave_request``.
    """
    with write():
        request = find_request(viewer, request_id)
        rate_limit.charge(viewer, "presence")
        now = timezone.now()
        before = Presence.objects.filter(request=request, user=viewer.user).first()
        fresh = before is not None and before.seen > now - HERE
        typed = {"typing": now if typing else None}
        returned = before is not None and before.seen > now - HERE - RETURN
        begun = {} if returned else {"since": now, "taken": None}
        Presence.objects.update_or_create(
            request=request,
            user=viewer.user,
            defaults={"seen": now, **typed, **begun},
            create_defaults=_new(now, typed),
        )
        if not fresh or (before is not None and (before.typing is not None) != typing):
            notify_request(request.workflow, request.pk, "people")
    return now


def leave_request(viewer: Viewer, request_id: str, seen: datetime | None = None) -> None:
    """Record that this person has closed the page: their soft claim ends at once, and is theirs again if they return
    within ``RETURN``. That they saw it is kept.

    ``seen``: the last time this page recorded. If another page of theirs recorded a later one, nothing changes.
    """
    with write():
        request = find_request(viewer, request_id)
        now = timezone.now()
        mine = Presence.objects.filter(request=request, user=viewer.user, seen__gt=now - HERE)
        mine = mine.filter(seen__lte=seen) if seen else mine
        if mine.update(seen=now - HERE, typing=None):
            notify_request(request.workflow, request.pk, "people")


def take_over(viewer: Viewer, request_id: str) -> None:
    """Take over the request from those who have it open, and notify them. They can still answer: a claim is soft."""
    with write():
        request = lock_request(find_request(viewer, request_id))
        refuse_unless_reviewer(viewer, request)
        refuse_unless_open(request)
        rate_limit.charge(viewer, "take")
        now = timezone.now()
        here = Presence.objects.filter(request=request, seen__gt=now - HERE)
        others = [row.user for row in here.exclude(user=viewer.user).select_related("user")]
        taken = {"seen": now, "taken": now}
        Presence.objects.update_or_create(
            request=request, user=viewer.user, defaults=taken, create_defaults=_new(now, taken)
        )
        notify("taken", request, others, facts={"by": viewer.name})
        entries.record_request(viewer, "take", request, {"from": sorted(other.get_username() for other in others)})
        notify_request(request.workflow, request.pk, "people")


def assign_request(viewer: Viewer, request_id: str, to: str | None, *, key: str | None = None) -> HumanRequest:
    """Assign the request to a user name, or to no one, notify the assignee, and return it. Others may still answer.

    ``Invalid`` at ``to`` for a person who may not answer it; an operator may also name those it is not addressed to.
    """
    with write(), idempotent(viewer, key, "assign", [request_id, to]) as call:
        request = lock_request(find_request(viewer, request_id))
        if call.previous_result is not None:
            return request
        if request.assignee_id != viewer.user.pk:
            refuse_unless_reviewer(viewer, request)
        refuse_unless_open(request)
        rate_limit.charge(viewer, "assign")
        target = _assignable(viewer, request, to) if to else None
        HumanRequest.objects.filter(OPEN, pk=request.pk).update(assignee=target.user if target else None)
        append_and_notify(viewer, request, EventKind.REQUEST_ASSIGNED, to=to or "")
        if target:
            notify("assigned", request, [target.user], facts={"by": viewer.name})
        entries.record_request(viewer, "assign", request, {"to": to or "", "from": _user_name(request.assignee)})
        request.assignee = target.user if target else None
        if request.stuck:
            update_decidability(request)
    return request


def save_draft(viewer: Viewer, request_id: str, fields: Mapping[str, Sequence[str]]) -> Draft | None:
    """Store and return a draft of an answer: the fields as the browser would send them. ``Invalid`` if it is too large.

    An empty one is deleted: which action was selected alone is no draft.
    """
    kept = {str(name): [str(value) for value in values] for name, values in fields.items()}
    if len(dumps(kept)) > MOST_DRAFT:
        raise Invalid([{"loc": [], "msg": "Too large for a draft. Submit it or save it elsewhere"}])
    if not any(value.strip() for name, values in kept.items() if name != "_action" for value in values):
        drop_draft(viewer, request_id)
        return None
    with write():
        request = find_request(viewer, request_id)
        rate_limit.charge(viewer, "draft")
        _make_room(viewer, request)
        facts = {"fields": kept, "at": timezone.now()}
        draft, _ = Draft.objects.update_or_create(request=request, user=viewer.user, defaults=facts)
    return draft


def _make_room(viewer: Viewer, request: HumanRequest) -> None:
    """Raise ``Invalid`` if this person has too many drafts for other open requests."""
    others = Draft.objects.filter(user=viewer.user).exclude(request=request)
    if others.count() < MOST_DRAFTS:
        return
    over = others.exclude(request__in=HumanRequest.objects.filter(OPEN))
    Draft.objects.filter(pk__in=list(over.values_list("pk", flat=True))).delete()
    if others.count() >= MOST_DRAFTS:
        words = f"You have {MOST_DRAFTS} drafts. Submit or discard some first"
        raise Invalid([{"loc": [], "msg": words}])


def drop_draft(viewer: Viewer, request_id: str) -> None:
    """Delete one's own draft."""
    with write():
        Draft.objects.filter(request=find_request(viewer, request_id), user=viewer.user).delete()


def refuse_unless_open(request: HumanRequest) -> None:
    """Raise ``NoLongerOpen`` if it was answered or closed, ``WrongState`` while an answer can still be undone."""
    if request.answered is not None or request.closed is not None:
        raise NoLongerOpen("This request has already been answered or closed", closed_as=request.closed_as)
    if request.settles is not None:
        raise WrongState("Someone has just answered this; they can still undo it")
    if request.run.phase in {Phase.CANCELLED, Phase.COMPLETED}:
        raise NoLongerOpen(f"The run is {request.run.phase}")


def refuse_unless_reviewer(viewer: Viewer, request: HumanRequest) -> None:
    """Raise ``NotAllowed`` for people who may neither answer this request nor operate its workflow."""
    addressed = viewer.addressed(request.by, request.not_by, origin_of(request.run))
    if not (addressed and viewer.may("answer", request.workflow)) and not viewer.may("operate", request.workflow):
        raise NotAllowed("Only those who can answer this request and operators can do that")


def refuse_unless_shown(viewer: Viewer, request: HumanRequest) -> None:
    """Raise ``NotAllowed`` for people who may know of this request but not see its card."""
    assigned = request.assignee_id == viewer.user.pk
    if not viewer.reads_card(request.workflow, request.by, origin_of(request.run), assigned=assigned):
        raise NotAllowed("Only people who can see this request can comment")


def refuse_unless_informed(viewer: Viewer, request: HumanRequest) -> None:
    """Raise ``NotAllowed`` unless this person started the run or operates it: they answer questions about the
    request.
    """
    if requester_of(request) != viewer.name and not viewer.may("operate", request.workflow):
        raise NotAllowed("Only the requester and operators can do that")


def requester_of(request: HumanRequest) -> str | None:
    """Return the user name of who started the run."""
    return _user_name(request.run.created_by) or None


def append_and_notify(viewer: Viewer, request: HumanRequest, kind: EventKind, **more: Any) -> None:
    """Append an event about the request to its run, and publish to the lists."""
    append_request_event(request, kind, by=viewer.name, **more)
    notify_inbox(request.workflow)


def _new(now: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"since": now, "seen": now, **more}


def _assignable(viewer: Viewer, request: HumanRequest, name: str) -> Viewer:
    found = people_who("answer", request.workflow, names=[name])
    free = viewer.may("operate", request.workflow) and Policy.model_validate(request.policy).override
    by = () if free else request.by
    if not found or not found[0].addressed(by, request.not_by, origin_of(request.run)):
        raise Invalid([{"loc": ["to"], "msg": f"{name} cannot answer this request. Choose someone who can"}])
    if is_service(found[0].user):
        raise Invalid([{"loc": ["to"], "msg": f"{name} is a service account, which is not notified. Choose a person"}])
    return found[0]


def _user_name(user: Any) -> str:
    return user.get_username() if user else ""

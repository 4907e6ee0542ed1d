"""Verbs on requests: answer, and take an answer back. First answer wins; a refused one leaves the request open."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import OPEN, Answer, Draft, HumanRequest, Reply, Shown
from checkpoints.orm import write
from checkpoints.records import Json, Phase
from wfdash.access import Right, Viewer
from wfdash.desk import audit
from wfdash.desk.behalf import right_for_another, said_for
from wfdash.desk.common import append_request_event, find_request, lock_request, tell_inbox
from wfdash.desk.judging import judge
from wfdash.desk.keys import once
from wfdash.desk.settling import settle
from wfdash.desk.tally import Vote, decides, stands_as, vetoes
from wfdash.errors import AlreadyAnswered, Changed, Invalid, KeyReused, NoLongerOpen, NotAllowed, WrongState
from wfdash.schema import Problem
from wfdash.seen import fingerprint
from wfdash.workflow.policy import Policy
from wfdash.workflow.signals import KIND


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How an answer came: over which door, with what in view, and whether it may be taken back."""

    via: str = "api"
    seen: str = ""
    """Fingerprint of what was shown; empty: not bound to it."""
    page: str = ""
    """The page that was shown, for the record."""
    undo: bool = False
    override: bool = False
    on_behalf_of: str = ""


def answer_request(
    viewer: Viewer,
    request_id: str,
    value: Json,
    *,
    verdict: str = "",
    reason: str = "",
    seen: str = "",
    undo: bool = False,
    via: str = "api",
    page: str = "",
    override: bool = False,
    on_behalf_of: str = "",
    key: str | None = None,
) -> Reply:
    """Accept what a person says, durably. Once enough have said the same it is the answer, and the run is due.

    ``seen``: the fingerprint of what was shown; if the request is another now, ``Changed`` tells the difference.
    ``undo``: it takes effect only after the time in which it may be taken back. ``override``: an operator decides
    instead of those it is addressed to; needs a reason, and is no way around ``not_by``. ``on_behalf_of``: an operator
    writes down what this person decided (a user name); it counts as theirs, and needs a reason too.
    ``Invalid`` (nothing changed, the request stays open), ``AlreadyAnswered`` (facts: by, at, value, verdict),
    ``NoLongerOpen``, ``Changed``, ``NotAllowed``, ``NotFound``.
    """
    manner = Manner(
        via=via, seen=seen, page=page, undo=undo, override=override and not on_behalf_of, on_behalf_of=on_behalf_of
    )
    judged = judge(find_request(viewer, request_id), value)
    try:
        command = [request_id, value, verdict, reason, seen, undo, override, on_behalf_of]
        with write(), once(viewer, key, "answer", command) as deed:
            if deed.before is not None:
                return _given_before(deed.before["reply"])
            request = lock_request(find_request(viewer, request_id))
            right = _right(viewer, request, manner)
            _refuse_unless_open(viewer, request, on_behalf_of)
            manner = replace(manner, seen=_refuse_if_changed(request, seen))
            said = reason or reason_in(value)
            problems = judged or _contradiction(value, verdict)
            if (override or on_behalf_of) and not said.strip():
                problems = [{"loc": ["reason"], "msg": "Say why you decide instead of those it is addressed to"}]
            if problems:
                raise Invalid(problems)
            reply = _accept(viewer, request, value, said, right, manner)
            deed.keep(reply=reply.id)
            return reply
    except IntegrityError:
        raise _already(find_request(viewer, request_id)) from None


def _given_before(reply_id: Json) -> Reply:
    reply = Reply.objects.select_related("by").get(pk=reply_id)
    if reply.undone is not None:
        raise KeyReused("That answer was taken back since: look at the request as it is now, and answer anew")
    return reply


def _accept(viewer: Viewer, request: HumanRequest, value: Json, reason: str, right: Right, manner: Manner) -> Reply:
    reply = _write_reply(viewer, request, value, reason, right, manner)
    _count(viewer, request, reply, manner)
    _record(viewer, request, reply, manner)
    Draft.objects.filter(request=request, user=viewer.user).delete()
    tell_inbox(request.workflow)
    return reply


def undo_answer(viewer: Viewer, request_id: str, *, key: str | None = None) -> None:
    """Take one's own answer back, before it has taken effect; the request is open again.

    ``WrongState`` if there is none, or it is too late.
    """
    with write(), once(viewer, key, "undo", [request_id]) as deed:
        request = lock_request(find_request(viewer, request_id))
        if deed.before is not None:
            return
        now = timezone.now()
        mine = Reply.objects.select_related("by").filter(request=request, by=viewer.user, undone__isnull=True).first()
        if mine is None or request.answered is not None or request.closed is not None:
            raise WrongState("There is no answer of yours that could still be taken back")
        if request.settles is not None and (mine.settles is None or mine.settles <= now):
            raise WrongState("It is too late to take your answer back: the matter is decided")
        Reply.objects.filter(pk=mine.pk, undone__isnull=True).update(undone=now, settles=None)
        if mine.settles is not None:
            HumanRequest.objects.filter(pk=request.pk).update(settles=None)
        _tell(request, "request.undone", mine)
        facts = {"verdict": mine.verdict, "reply": mine.id}
        audit.record_request(viewer, "undo", request, facts, right=mine.right)
        tell_inbox(request.workflow)


def verdict_of(value: Json) -> str:
    """Return the action an answer chose, ``answered`` where the request has no actions."""
    action = value.get("action") if isinstance(value, dict) else None
    return str(action)[:40] if action else "answered"


def reason_in(value: Json) -> str:
    """Return the reason an answer gives."""
    reason = value.get("reason") if isinstance(value, dict) else None
    return reason if isinstance(reason, str) else ""


def undo_seconds(request: HumanRequest) -> float:
    """Return for how long an answer to it may be taken back."""
    own = Policy.model_validate(request.policy).undo
    return settings.WFDASH_UNDO if own is None else own.total_seconds()


def _contradiction(value: Json, verdict: str) -> list[Problem]:
    """A verdict is what the answer itself says: the record must not tell of an approval that was none."""
    said = verdict_of(value)
    return [{"loc": ["verdict"], "msg": f"The answer says {said}"}] if verdict[:40] not in {"", said} else []


def _right(viewer: Viewer, request: HumanRequest, manner: Manner) -> Right:
    requester = request.run.created_by.get_username() if request.run.created_by else None
    if request.kind == KIND:
        raise NotAllowed("This waits for a signal, not for a person: send it into the run")
    if manner.on_behalf_of:
        return right_for_another(viewer, request, manner.on_behalf_of, requester)
    if manner.override:
        if not viewer.may("operate", request.workflow):
            raise NotAllowed("Only an operator may decide instead of those it is addressed to")
        right = viewer.right_for((), request.not_by, requester)
        if right is None:
            raise NotAllowed("This needs a second person: you may not answer it yourself")
        return viewer.right_for(request.by, request.not_by, requester) or Right(words="operator, instead of others")
    if not viewer.may("answer", request.workflow):
        raise NotAllowed("You may not answer requests of this workflow: ask one of its admins")
    right = viewer.right_for(request.by, request.not_by, requester)
    if right is None and request.assignee_id == viewer.user.pk:
        right = viewer.right_for((), request.not_by, requester) and Right(words="assigned")
    if right is None:
        raise NotAllowed("This request is addressed to others, or needs a second person")
    return right


def _refuse_unless_open(viewer: Viewer, request: HumanRequest, on_behalf_of: str) -> None:
    if request.answered is not None or request.settles is not None:
        raise _already(request)
    if request.closed is not None:
        raise _closed(request)
    if request.run.phase in {Phase.CANCELLED, Phase.COMPLETED}:
        raise NoLongerOpen(f"The run is {request.run.phase}")
    name = on_behalf_of or viewer.name
    theirs = said_for(request, name, by_others=not on_behalf_of)
    if theirs is not None:
        raise _told(theirs, f"{audit.name_of(theirs.by)} said {theirs.verdict} already, as or for {name}")
    mine = Reply.objects.filter(request=request, by=viewer.user, undone__isnull=True).first()
    if mine is not None:
        raise _told(mine, f"You said {mine.verdict} already; take it back to say something else")


def _refuse_if_changed(request: HumanRequest, seen: str) -> str:
    """Return the fingerprint of the request as it is now, which is what was seen, or nothing was named."""
    now = fingerprint(request.card, request.answer_schema)
    if seen in {"", now}:
        return now
    kept = Shown.objects.filter(pk=f"{request.pk}:card:{seen[:64]}").first()
    before = json.loads(kept.body)["card"] if kept else None
    raise Changed(before=before, after=request.card, now=now)


def _write_reply(
    viewer: Viewer, request: HumanRequest, value: Json, reason: str, right: Right, manner: Manner
) -> Reply:
    verdict = verdict_of(value)
    return Reply.objects.create(
        id=ids.new_request_id(),
        request=request,
        by=viewer.user,
        via=manner.via,
        right=right.words[:300],
        acting_for=right.acting_for,
        value=value,
        verdict=verdict,
        stands=stands_as(verdict, request.card, override=manner.override),
        reason=reason,
        seen=manner.seen,
        at=timezone.now(),
    )


def _count(viewer: Viewer, request: HumanRequest, reply: Reply, manner: Manner) -> None:
    """Count the votes; with enough of them the latest becomes the answer, at once or when it may not be undone."""
    policy = Policy.model_validate(request.policy)
    need = 1 if manner.override else policy.need
    if need > 1 and not _decides(request, reply, need, policy.veto):
        _tell(request, "request.voted", reply, need=need)
        return
    seconds = undo_seconds(request) if manner.undo else 0.0
    if not seconds:
        settle(request, reply)
        return
    until = reply.at + timedelta(seconds=seconds)
    _decide(request, until)
    Reply.objects.filter(pk=reply.pk).update(settles=until)
    reply.settles = request.settles = until
    _tell(request, "request.answering", reply, until=until.isoformat())


def _decides(request: HumanRequest, reply: Reply, need: int, veto: bool) -> bool:
    replies = Reply.objects.filter(request=request, undone__isnull=True).exclude(pk=reply.pk)
    latest = Vote(by=str(reply.by_id), verdict=reply.verdict, value=reply.value)
    votes = [Vote(by=str(other.by_id), verdict=other.verdict, value=other.value) for other in replies]
    return decides([*votes, latest], latest, need=need, vetoes=vetoes(request.card, veto=veto))


def _decide(request: HumanRequest, until: datetime) -> None:
    if HumanRequest.objects.filter(OPEN, pk=request.pk).update(settles=until) != 1:
        raise _already(HumanRequest.objects.get(pk=request.pk))


def _tell(request: HumanRequest, kind: str, reply: Reply, **more: Any) -> None:
    append_request_event(request, kind, by=audit.name_of(reply.by), verdict=reply.verdict, **more)


def _record(viewer: Viewer, request: HumanRequest, reply: Reply, manner: Manner) -> None:
    """Keep who decided, by which right, on what they saw, and what they changed."""
    shown = {"card": request.card, "answer_schema": request.answer_schema, "policy": request.policy}
    audit.keep_shown(request.id, "card", reply.seen, json.dumps(shown))
    page = sha256(manner.page.encode()).hexdigest() if manner.page else ""
    if page:
        audit.keep_shown(request.id, "page", page, manner.page)
    given = reply.value if isinstance(reply.value, dict) else {}
    changed = given.get("edited", given.get("arguments"))
    facts = {
        "reply": reply.id,
        "verdict": reply.verdict,
        "stands": reply.stands,
        "value": reply.value,
        "reason": reply.reason,
        "via": reply.via,
        "acting_for": reply.acting_for,
        "seen": reply.seen,
        "page": page,
        "proposal": request.card.get("proposal"),
        "edited": changed,
        "settles": reply.settles.isoformat() if reply.settles else None,
    }
    audit.record_request(viewer, "override" if manner.override else "answer", request, facts, right=reply.right)


def _closed(request: HumanRequest) -> Exception:
    later = HumanRequest.objects.filter(replaces=request.id).order_by("-created").values_list("id", flat=True).first()
    return NoLongerOpen(f"This request is closed: {request.closed_as}", closed_as=request.closed_as, replaced_by=later)


def _already(request: HumanRequest) -> Exception:
    first: Answer | Reply | None = Answer.objects.select_related("by").filter(request=request).first()
    if first is None:
        first = Reply.objects.select_related("by").filter(request=request, settles__isnull=False).first()
    if first is None:
        return _closed(request) if request.closed else NoLongerOpen("Somebody else is just answering this request")
    return _told(first, f"{audit.name_of(first.by)} answered first ({first.verdict}, {first.at:%Y-%m-%d %H:%M} UTC)")


def _told(first: Answer | Reply, words: str) -> AlreadyAnswered:
    facts = {"by": audit.name_of(first.by), "at": first.at.isoformat(), "value": first.value, "verdict": first.verdict}
    return AlreadyAnswered(words, **facts)

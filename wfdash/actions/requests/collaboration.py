"""Several people on one request: who has it open, take-over, assignment, drafts, comments, additions."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db.models import Sum
from django.db.models.functions import Length
from django.utils import timezone
from pydantic import TypeAdapter, ValidationError

from checkpoints import ids
from checkpoints.content.canonical_json import dumps
from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.errors import Unreadable
from checkpoints.events import EventKind
from checkpoints.limits import MOST_NODES, count_nodes
from checkpoints.models import OPEN, Comment, Draft, HumanRequest, Presence, Reply, Shown, Snooze
from checkpoints.models.user_model import User
from checkpoints.records import Json, JsonObject, Phase
from wfdash.access.directory import is_service, people_who, readers
from wfdash.access.viewer import Viewer, origin_of, viewer_for
from wfdash.actions import audit, pacing
from wfdash.actions.common import append_request_event, find_request, lock_request, notify_inbox, notify_request
from wfdash.actions.pacing import idempotent, made_before
from wfdash.actions.requests.announce import update_decidability
from wfdash.domain.errors import Invalid, NoLongerOpen, NotAllowed, NotFound, WrongState
from wfdash.domain.hash_chain import fingerprint
from wfdash.notifications.write import notify
from wfdash.questions.card import MAX_CARD, MOST_PIECES
from wfdash.questions.evidence import Evidence
from wfdash.questions.policy import Policy
from wfdash.values.schemas.validate import flaws_of

log = logging.getLogger(__name__)

# Adding description and evidence to an open request. The proposal itself never changes.

MOST_TEXT = 20_000
"""Characters that may be added to the description at once."""
MOST_ADDED = 20
"""Pieces of evidence that may be added at once."""
MOST_KEPT = 64_000_000
"""Characters of earlier versions of a request's card that are stored."""
PIECES: TypeAdapter[list[Evidence]] = TypeAdapter(list[Evidence])


def amend_request(
    viewer: Viewer,
    request_id: str,
    *,
    body: str = "",
    evidence: Iterable[Mapping[str, Json]] = (),
    key: str | None = None,
) -> HumanRequest:
    """Add to an open request's description (markdown) and evidence (``{kind, title, value}`` each), and return the
    request.

    The previous card is kept, so that people who have it open are shown the difference. Votes on the previous card no
    longer count; those voters are notified, and those who had asked for information. ``Invalid`` for evidence that a
    step could not show either, and where the card would grow beyond its limit.
    """
    body, given = body.strip(), [dict(part) for part in evidence]
    parts = _checked_evidence(body, given)
    with write(), idempotent(viewer, key, "amend", [request_id, body, given]) as call:
        request = lock_request(find_request(viewer, request_id))
        if call.previous_result is not None:
            return request
        refuse_unless_informed(viewer, request)
        refuse_unless_open(request)
        pacing.charge(viewer, "amend")
        before = fingerprint(request.card, request.answer_schema)
        card = _amended(request.card, viewer.name, body, parts)
        _refuse_too_large(request, card)
        _keep_card(request)
        _change_card(request, card)
        void = _void_votes(request)
        append_and_notify(viewer, request, EventKind.REQUEST_AMENDED, void=[user.get_username() for user in void])
        notify("opened", request, void, facts={"by": viewer.name, "text": "Changed after you decided."})
        if request.asked is not None:
            end_ask(viewer, request, body or ", ".join(str(part.get("title") or "") for part in parts), but=void)
        after = fingerprint(request.card, request.answer_schema)
        facts = {"body": body, "evidence": [_audited_piece(part) for part in parts], "before": before, "after": after}
        audit.record_request(viewer, "amend", request, facts)
    return request


def _checked_evidence(body: str, given: list[JsonObject]) -> list[JsonObject]:
    """Return the evidence in the form a card holds it. ``Invalid`` with what is wrong."""
    if not body and not given:
        raise Invalid.at("body", "Enter the information to add")
    if len(body) > MOST_TEXT:
        raise Invalid.at("body", f"Keep it below {MOST_TEXT:,} characters")
    if len(given) > MOST_ADDED:
        raise Invalid.at("evidence", f"Add at most {MOST_ADDED} items at once")
    if flaws := flaws_of({"body": body, "evidence": given}):
        raise Invalid(flaws)
    try:
        return [piece.shown() for piece in PIECES.validate_python(given)]
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise Invalid([{"loc": ["evidence", *one["loc"]], "msg": one["msg"]} for one in found]) from error


def _amended(card: JsonObject, by: str, body: str, parts: list[JsonObject]) -> JsonObject:
    changed = dict(card)
    if body:
        changed["body"] = f"{card.get('body') or ''}\n\n**Added by {by}:**\n\n{body}".strip()
    if parts:
        evidence = card.get("evidence")
        changed["evidence"] = [*(evidence if isinstance(evidence, list) else []), *parts]
    return changed


def _refuse_too_large(request: HumanRequest, card: JsonObject) -> None:
    if len(card.get("evidence") or ()) > MOST_PIECES:
        words = f"The card would have more than {MOST_PIECES} items of evidence. Add the information as a comment"
        raise Invalid.at("evidence", words)
    if count_nodes(card, MOST_NODES) > MOST_NODES:
        words = f"The card would hold more than {MOST_NODES:,} values. Link to large content instead"
        raise Invalid.at("evidence", words)
    size = len(json.dumps(card))
    if size > MAX_CARD:
        most = f"{MAX_CARD / 1e6:.0f} MB"
        words = f"The card would have {size / 1e6:.1f} MB, the limit is {most}. Link to large content instead"
        raise Invalid.at("evidence", words)
    kept = Shown.objects.filter(request=request.pk).aggregate(all=Sum(Length("body")))["all"] or 0
    if kept + size > MOST_KEPT:
        words = "This request has reached its size limit. Add the information as a comment"
        raise Invalid.at("body", words)


def _keep_card(request: HumanRequest) -> None:
    """Store the current card, to show later what changed."""
    shown = {"card": request.card, "answer_schema": request.answer_schema, "policy": request.policy}
    audit.keep_shown(request.id, ("card", fingerprint(request.card, request.answer_schema), json.dumps(shown)))


def _change_card(request: HumanRequest, card: JsonObject) -> None:
    field: Any = HumanRequest._meta.get_field("card")
    changed = HumanRequest.objects.filter(OPEN, pk=request.pk).update(card=field.encrypted(card, request.pk))
    if changed != 1:
        raise NoLongerOpen("This request has already been answered or closed")
    request.card = card


def _void_votes(request: HumanRequest) -> list[User]:
    votes = list(Reply.objects.filter(request=request, undone__isnull=True).select_related("by"))
    Reply.objects.filter(pk__in=[vote.pk for vote in votes]).update(undone=timezone.now())
    return [vote.by for vote in votes if vote.by is not None]


def _audited_piece(part: Mapping[str, Json]) -> JsonObject:
    """Return what the audit stores of a piece of evidence: the piece itself is on the card."""
    digest = sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()
    return {"kind": part["kind"], "title": part.get("title", ""), "sha256": digest}


# A request's thread: comment, ask back, reply.

MOST_MENTIONS = 50
MOST_COMMENTS = 2_000
"""Comments in the thread of one request."""
MENTION = re.compile(r"(?<![\w@/.])@([\w.+-]*\w)")


def comment_on(viewer: Viewer, request_id: str, text: str, *, key: str | None = None) -> Comment:
    """Add a comment to the thread (markdown). People it mentions by ``@name`` are notified if they may see the
    request.
    """
    with write(), idempotent(viewer, key, "comment", [request_id, text]) as call:
        request = lock_request(find_request(viewer, request_id))
        if call.previous_result is not None:
            return made_before(Comment, call.previous_result["comment"])
        refuse_unless_shown(viewer, request)
        comment = _add_comment(viewer, request, "comment", text)
        call.record(comment=comment.id)
        append_and_notify(viewer, request, EventKind.REQUEST_COMMENTED, comment=comment.id)
    return comment


def ask_back(viewer: Viewer, request_id: str, text: str, *, key: str | None = None) -> Comment:
    """Ask the person who started the run (or, without one, the operators) for information. The request stays
    answerable.
    """
    with write(), idempotent(viewer, key, "ask", [request_id, text]) as call:
        request = lock_request(find_request(viewer, request_id))
        if call.previous_result is not None:
            return made_before(Comment, call.previous_result["comment"])
        refuse_unless_reviewer(viewer, request)
        refuse_unless_open(request)
        comment = _add_comment(viewer, request, "ask", text)
        call.record(comment=comment.id)
        HumanRequest.objects.filter(OPEN, pk=request.pk).update(asked=comment.at)
        append_and_notify(viewer, request, EventKind.REQUEST_ASKED, comment=comment.id)
        notify("asked", request, asked_of(request), facts={"by": viewer.name, "text": comment.text[:300]})
    return comment


def reply_to_ask(viewer: Viewer, request_id: str, text: str, *, key: str | None = None) -> Comment:
    """Reply to what was asked back, as the starter of the run or an operator. Those who asked are notified."""
    with write(), idempotent(viewer, key, "reply", [request_id, text]) as call:
        request = lock_request(find_request(viewer, request_id))
        if call.previous_result is not None:
            return made_before(Comment, call.previous_result["comment"])
        refuse_unless_informed(viewer, request)
        since = request.asked
        if since is None:
            raise WrongState("No information was requested. Comment instead")
        comment = _add_comment(viewer, request, "reply", text)
        call.record(comment=comment.id)
        append_and_notify(viewer, request, EventKind.REQUEST_REPLIED, comment=comment.id)
        end_ask(viewer, request, comment.text)
    return comment


def end_ask(viewer: Viewer, request: HumanRequest, text: str, *, but: Iterable[User] = ()) -> None:
    """Record that a request waits for no one's word any more, and notify those who asked, apart from ``but``."""
    HumanRequest.objects.filter(pk=request.pk).update(asked=None)
    asked = Comment.objects.filter(request=request, kind="ask").select_related("by")
    askers = {line.by for line in asked if line.by is not None} - set(but)
    notify("replied", request, askers, facts={"by": viewer.name, "text": text[:300]})


def asked_of(request: HumanRequest) -> list[User]:
    """Return the people a reply is expected from: the starter of the run, else the operators of the workflow. A
    program that started it hears by its webhooks; operators reply.
    """
    starter = request.run.created_by
    if starter is not None and not is_service(starter):
        return [starter]
    return [person.user for person in people_who("operate", request.workflow, programs=False)]


def _add_comment(viewer: Viewer, request: HumanRequest, kind: str, text: str) -> Comment:
    text = text.strip()
    if not text:
        raise Invalid.at("text", "Enter a comment")
    if len(text) > MOST_TEXT:
        raise Invalid.at("text", f"At most {MOST_TEXT} characters")
    if Comment.objects.filter(request=request).count() >= MOST_COMMENTS:
        raise WrongState(f"This request has {MOST_COMMENTS:,} comments, the maximum")
    mentioned = _mentioned(request, text)
    pacing.charge(viewer, kind)
    if mentioned:
        pacing.charge(viewer, f"mention by {kind}", len(mentioned))
    comment = Comment.objects.create(
        id=ids.new_token(),
        request=request,
        by=viewer.user,
        kind=kind,
        text=text,
        mentions=[user.get_username() for user in mentioned],
        at=timezone.now(),
    )
    notify("mentioned", request, mentioned, facts={"by": viewer.name, "text": text[:300]})
    audit.record_request(viewer, kind, request, {"comment": comment.id, "text": text, "mentions": comment.mentions})
    return comment


def _mentioned(request: HumanRequest, text: str) -> list[User]:
    """Return the people a text mentions, of those who may read the request."""
    names = list(dict.fromkeys(MENTION.findall(text)))[:MOST_MENTIONS]
    if not names:
        return []
    people = readers(request.workflow, request.by, origin_of(request.run), names=names)
    found = {person.name: person.user for person in people}
    return [found[name] for name in names if name in found]


PRESENT_FOR = timedelta(seconds=45)
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
        pacing.charge(viewer, "presence")
        now = timezone.now()
        before = Presence.objects.filter(request=request, user=viewer.user).first()
        fresh = before is not None and before.seen > now - PRESENT_FOR
        typed = {"typing": now if typing else None}
        returned = before is not None and before.seen > now - PRESENT_FOR - RETURN
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
        mine = Presence.objects.filter(request=request, user=viewer.user, seen__gt=now - PRESENT_FOR)
        mine = mine.filter(seen__lte=seen) if seen else mine
        if mine.update(seen=now - PRESENT_FOR, typing=None):
            notify_request(request.workflow, request.pk, "people")


def take_over(viewer: Viewer, request_id: str) -> None:
    """Take over the request from those who have it open, and notify them. They can still answer: a claim is soft."""
    with write():
        request = lock_request(find_request(viewer, request_id))
        refuse_unless_reviewer(viewer, request)
        refuse_unless_open(request)
        pacing.charge(viewer, "take")
        now = timezone.now()
        here = Presence.objects.filter(request=request, seen__gt=now - PRESENT_FOR)
        others = [row.user for row in here.exclude(user=viewer.user).select_related("user")]
        taken = {"seen": now, "taken": now}
        Presence.objects.update_or_create(
            request=request, user=viewer.user, defaults=taken, create_defaults=_new(now, taken)
        )
        notify("taken", request, others, facts={"by": viewer.name})
        audit.record_request(viewer, "take", request, {"from": sorted(other.get_username() for other in others)})
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
        pacing.charge(viewer, "assign")
        target = _assignable(viewer, request, to) if to else None
        HumanRequest.objects.filter(OPEN, pk=request.pk).update(assignee=target.user if target else None)
        append_and_notify(viewer, request, EventKind.REQUEST_ASSIGNED, to=to or "")
        if target:
            notify("assigned", request, [target.user], facts={"by": viewer.name})
        audit.record_request(viewer, "assign", request, {"to": to or "", "from": _user_name(request.assignee)})
        request.assignee = target.user if target else None
        if request.stuck:
            update_decidability(request)
    return request


def snooze_request(viewer: Viewer, request_id: str, until: datetime | None, *, key: str | None = None) -> HumanRequest:
    """Keep an open request out of this person's own queue until a time, when they are reminded; None: no longer.

    ``Invalid`` at ``until`` for a time that is past or more than a year away.
    """
    with write(), idempotent(viewer, key, "snooze", [request_id, until and until.isoformat()]) as call:
        request = lock_request(find_request(viewer, request_id))
        if call.previous_result is not None:
            return request
        Snooze.objects.filter(request=request, user=viewer.user).delete()
        if until is not None:
            refuse_unless_open(request)
            if not timedelta() < until - database_now() < timedelta(days=366):
                raise Invalid.at("until", "Enter a time in the future, within a year")
            Snooze.objects.create(request=request, user=viewer.user, until=until)
        notify_inbox(request.workflow)
    return request


def wake_snoozed(limit: int = 100) -> int:
    """Put requests back into the queue of those who wanted to be reminded now, and notify them. Returns how many."""
    due = Snooze.objects.filter(until__lte=database_now()).order_by("until", "pk")
    found = list(due.select_related("request__run", "user")[:limit])
    for one in found:
        with write():
            again = one.request.answered is None and one.request.settles is None and one.request.closed is None
            if Snooze.objects.filter(pk=one.pk, until=one.until).delete()[0] and again:
                notify_inbox(one.request.workflow)
                try:
                    notify("snoozed", find_request(viewer_for(one.user), one.request_id), [one.user])
                except NotFound:
                    pass  # They may no longer see it.
                except Unreadable as error:
                    log.error("A person was not reminded of a request: %s", error)
    return len(found)


def save_draft(viewer: Viewer, request_id: str, fields: Mapping[str, Sequence[str]]) -> Draft | None:
    """Store and return a draft of an answer: the fields as the browser would send them. ``Invalid`` if it is too large.

    An empty one is deleted: which action was selected alone is no draft.
    """
    kept = {str(name): [str(value) for value in values] for name, values in fields.items()}
    if len(dumps(kept)) > MOST_DRAFT:
        raise Invalid.at("", "Too large for a draft. Submit it or save it elsewhere")
    if not any(value.strip() for name, values in kept.items() if name != "_action" for value in values):
        drop_draft(viewer, request_id)
        return None
    with write():
        request = find_request(viewer, request_id)
        pacing.charge(viewer, "draft")
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
        raise Invalid.at("", words)


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


def _new(now: Any, more: Mapping[str, Any]) -> JsonObject:
    return {"since": now, "seen": now, **more}


def _assignable(viewer: Viewer, request: HumanRequest, name: str) -> Viewer:
    found = people_who("answer", request.workflow, names=[name])
    free = viewer.may("operate", request.workflow) and Policy.model_validate(request.policy).override
    by = () if free else request.by
    if not found or not found[0].addressed(by, request.not_by, origin_of(request.run)):
        raise Invalid.at("to", f"{name} cannot answer this request. Choose someone who can")
    if is_service(found[0].user):
        raise Invalid.at("to", f"{name} is a service account, which is not notified. Choose a person")
    return found[0]


def _user_name(user: Any) -> str:
    return user.get_username() if user else ""

"""Verbs of a request's thread: comment, ask back, reply, add what was missing. The proposal itself never changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import OPEN, Comment, HumanRequest, Reply
from checkpoints.orm import write
from checkpoints.records import Json
from wfdash.access import Viewer
from wfdash.desk import audit
from wfdash.desk.common import find_request, lock_request
from wfdash.desk.keys import once
from wfdash.desk.tell import tell
from wfdash.desk.together import (
    happened,
    refuse_unless_open,
    refuse_unless_reviewer,
    requester_of,
)
from wfdash.directory import people_who, readers
from wfdash.errors import Invalid, NoLongerOpen, NotAllowed, WrongState
from wfdash.seen import fingerprint

MOST_TEXT = 20_000
MOST_MENTIONS = 50
MENTION = re.compile(r"(?<![\w@/.])@([\w.+-]*\w)")


def comment_on(viewer: Viewer, request_id: str, text: str, *, key: str | None = None) -> Comment:
    """Add a line to the thread (markdown). Whom it mentions by ``@name`` is told, if they may see the request."""
    with write(), once(viewer, key, "comment", [request_id, text]) as deed:
        request = find_request(viewer, request_id)
        if deed.before is not None:
            return Comment.objects.get(pk=deed.before["comment"])
        comment = _say(viewer, request, "comment", text)
        deed.keep(comment=comment.id)
        happened(viewer, request, "request.commented", {"comment": comment.id})
    return comment


def ask_back(viewer: Viewer, request_id: str, text: str, *, key: str | None = None) -> Comment:
    """Ask whoever started the run (where nobody did: the operators) for a word. It may be answered all the same."""
    with write(), once(viewer, key, "ask", [request_id, text]) as deed:
        request = lock_request(find_request(viewer, request_id))
        if deed.before is not None:
            return Comment.objects.get(pk=deed.before["comment"])
        refuse_unless_reviewer(viewer, request)
        refuse_unless_open(request)
        comment = _say(viewer, request, "ask", text)
        deed.keep(comment=comment.id)
        HumanRequest.objects.filter(OPEN, pk=request.pk).update(asked=comment.at)
        happened(viewer, request, "request.asked", {"comment": comment.id})
        tell("asked", request, asked_of(request), facts={"by": viewer.name, "text": comment.text[:300]})
    return comment


def reply_to_ask(viewer: Viewer, request_id: str, text: str, *, key: str | None = None) -> Comment:
    """Answer what was asked back, as whoever started the run or an operator. Those who asked are told."""
    with write(), once(viewer, key, "reply", [request_id, text]) as deed:
        request = lock_request(find_request(viewer, request_id))
        if deed.before is not None:
            return Comment.objects.get(pk=deed.before["comment"])
        _refuse_unless_informed(viewer, request)
        since = request.asked
        if since is None:
            raise WrongState("Nobody waits for a word on this request: comment on it instead")
        comment = _say(viewer, request, "reply", text)
        deed.keep(comment=comment.id)
        HumanRequest.objects.filter(pk=request.pk).update(asked=None)
        happened(viewer, request, "request.replied", {"comment": comment.id})
        asked = Comment.objects.filter(request=request, kind="ask").select_related("by")
        askers = {line.by for line in asked if line.by is not None}
        tell("replied", request, askers, facts={"by": viewer.name, "text": comment.text[:300]})
    return comment


def amend_request(
    viewer: Viewer,
    request_id: str,
    *,
    body: str = "",
    evidence: Iterable[Mapping[str, Json]] = (),
    key: str | None = None,
) -> HumanRequest:
    """Add to an open request's description (markdown) and evidence (``{kind, title, value}`` each).

    The card as it was is kept, so that those who have it open are shown the difference. Votes given on the card as
    it was no longer count; those people are told.
    """
    parts = [dict(part) for part in evidence]
    if not body.strip() and not parts:
        raise Invalid([{"loc": ["body"], "msg": "Say what is to be added"}])
    if len(body) > MOST_TEXT:
        raise Invalid([{"loc": ["body"], "msg": f"Keep it below {MOST_TEXT} characters"}])
    with write(), once(viewer, key, "amend", [request_id, body, parts]) as deed:
        request = lock_request(find_request(viewer, request_id))
        if deed.before is not None:
            return request
        _refuse_unless_informed(viewer, request)
        refuse_unless_open(request)
        before = fingerprint(request.card, request.answer_schema)
        keep_card(request)
        _change_card(request, _amended(request.card, viewer.name, body.strip(), parts))
        void = _void_votes(request)
        happened(viewer, request, "request.amended", {"void": [user.get_username() for user in void]})
        tell("opened", request, void, facts={"by": viewer.name, "text": "It was changed after you had decided."})
        after = fingerprint(request.card, request.answer_schema)
        audit.record_request(
            viewer, "amend", request, {"body": body.strip(), "evidence": parts, "before": before, "after": after}
        )
    return request


def keep_card(request: HumanRequest) -> None:
    """Keep the card as it is now, to tell later what changed."""
    shown = {"card": request.card, "answer_schema": request.answer_schema, "policy": request.policy}
    audit.keep_shown(request.id, "card", fingerprint(request.card, request.answer_schema), json.dumps(shown))


def asked_of(request: HumanRequest) -> list[User]:
    """Return whose word is waited for: whoever started the run, else the operators of the workflow."""
    if request.run.created_by is not None:
        return [request.run.created_by]
    return [person.user for person in people_who("operate", request.workflow)]


def _say(viewer: Viewer, request: HumanRequest, kind: str, text: str) -> Comment:
    text = text.strip()
    if not text:
        raise Invalid([{"loc": ["text"], "msg": "Write something first"}])
    if len(text) > MOST_TEXT:
        raise Invalid([{"loc": ["text"], "msg": f"Keep it below {MOST_TEXT} characters"}])
    mentioned = _mentioned(request, text)
    comment = Comment.objects.create(
        id=ids.new_token(),
        request=request,
        by=viewer.user,
        kind=kind,
        text=text,
        mentions=[user.get_username() for user in mentioned],
        at=timezone.now(),
    )
    tell("mentioned", request, mentioned, facts={"by": viewer.name, "text": text[:300]})
    audit.record_request(viewer, kind, request, {"comment": comment.id, "text": text, "mentions": comment.mentions})
    return comment


def _mentioned(request: HumanRequest, text: str) -> list[User]:
    """Return the people a text mentions, of those who may read the request."""
    names = list(dict.fromkeys(MENTION.findall(text)))[:MOST_MENTIONS]
    if not names:
        return []
    people = readers(request.workflow, request.by, requester_of(request), names=names)
    found = {person.name: person.user for person in people}
    return [found[name] for name in names if name in found]


def _refuse_unless_informed(viewer: Viewer, request: HumanRequest) -> None:
    """Only who started the run, and operators, speak for the request itself."""
    if requester_of(request) != viewer.name and not viewer.may("operate", request.workflow):
        raise NotAllowed("Only whoever started the run can do that, and operators")


def _amended(card: dict[str, Any], by: str, body: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    changed = dict(card)
    if body:
        changed["body"] = f"{card.get('body') or ''}\n\n**Added by {by}:**\n\n{body}".strip()
    if parts:
        evidence = card.get("evidence")
        changed["evidence"] = [*(evidence if isinstance(evidence, list) else []), *parts]
    return changed


def _change_card(request: HumanRequest, card: dict[str, Any]) -> None:
    field: Any = HumanRequest._meta.get_field("card")
    changed = HumanRequest.objects.filter(OPEN, pk=request.pk).update(card=field.sealed(card, request.pk))
    if changed != 1:
        raise NoLongerOpen("This request was answered or closed meanwhile")
    request.card = card


def _void_votes(request: HumanRequest) -> list[User]:
    votes = list(Reply.objects.filter(request=request, undone__isnull=True).select_related("by"))
    Reply.objects.filter(pk__in=[vote.pk for vote in votes]).update(undone=timezone.now())
    return [vote.by for vote in votes if vote.by is not None]

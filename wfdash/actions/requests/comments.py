"""A request's thread: comment, ask back, reply."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.utils import timezone

from checkpoints import ids
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import OPEN, Comment, HumanRequest
from checkpoints.models.user_model import User
from wfdash.access.directory import is_service, people_who, readers
from wfdash.access.viewer import Viewer, origin_of
from wfdash.actions import rate_limit
from wfdash.actions.audit import entries
from wfdash.actions.common import find_request, lock_request
from wfdash.actions.idempotency import idempotent, made_before
from wfdash.actions.requests.collaboration import (
    append_and_notify,
    refuse_unless_informed,
    refuse_unless_open,
    refuse_unless_reviewer,
    refuse_unless_shown,
)
from wfdash.errors import Invalid, WrongState
from wfdash.notifications.write import notify

MOST_TEXT = 20_000
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
        raise Invalid([{"loc": ["text"], "msg": "Enter a comment"}])
    if len(text) > MOST_TEXT:
        raise Invalid([{"loc": ["text"], "msg": f"At most {MOST_TEXT} characters"}])
    if Comment.objects.filter(request=request).count() >= MOST_COMMENTS:
        raise WrongState(f"This request has {MOST_COMMENTS:,} comments, the maximum")
    mentioned = _mentioned(request, text)
    rate_limit.charge(viewer, kind)
    if mentioned:
        rate_limit.charge(viewer, f"mention by {kind}", len(mentioned))
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
    entries.record_request(viewer, kind, request, {"comment": comment.id, "text": text, "mentions": comment.mentions})
    return comment


def _mentioned(request: HumanRequest, text: str) -> list[User]:
    """Return the people a text mentions, of those who may read the request."""
    names = list(dict.fromkeys(MENTION.findall(text)))[:MOST_MENTIONS]
    if not names:
        return []
    people = readers(request.workflow, request.by, origin_of(request.run), names=names)
    found = {person.name: person.user for person in people}
    return [found[name] for name in names if name in found]

"""The API of collaboration on a request: undo, comments, assignment, drafts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import AwareDatetime

from wfdash import actions, queries
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.bodies import Body

router = Router()


class TextIn(Body):
    """A text: ``kind`` comment, ask (a question back) or reply (to it); markdown."""

    text: str
    kind: str = "comment"


class LineOut(Schema):
    """A line of the thread."""

    id: str
    by: str
    kind: str
    text: str
    mentions: list[str]
    at: datetime


class AssignIn(Body):
    """Assignee user name, or null."""

    to: str | None = None


class AssignOut(Schema):
    """The current assignee."""

    request: str
    assignee: str


class DueIn(Body):
    """The new deadline: a time with an offset."""

    due: AwareDatetime


class DueOut(Schema):
    """The deadline."""

    request: str
    due: datetime


class DraftIn(Body):
    """A draft of an answer: field names and values as a browser sends them."""

    fields: dict[str, list[str]]


class AmendIn(Body):
    """An addition to the card: markdown for the body, pieces of evidence ``{kind, title, value}``."""

    body: str = ""
    evidence: list[dict[str, Any]] = []


class PersonOut(Schema):
    """A person who has the request open."""

    name: str
    since: datetime
    typing: bool


@router.post("/requests/{request_id}/undo", response={204: None})
def undo_answer(request: HttpRequest, request_id: str) -> Any:
    """Undo one's own answer or vote. 409 when it has taken effect."""
    actions.undo_answer(viewer_of(request), request_id, key=key_of(request))
    return Status(204, None)


@router.get("/requests/{request_id}/comments", response=list[LineOut])
def list_comments(request: HttpRequest, request_id: str) -> Any:
    """Return the thread, oldest first."""
    return list(queries.thread(queries.request(viewer_of(request), request_id)))


@router.post("/requests/{request_id}/comments", response={201: LineOut})
def say(request: HttpRequest, request_id: str, given: TextIn) -> Any:
    """Comment, ask back, or reply to a question."""
    verbs = {"comment": actions.comment_on, "ask": actions.ask_back, "reply": actions.reply_to_ask}
    viewer = viewer_of(request)
    line = verbs.get(given.kind, actions.comment_on)(viewer, request_id, given.text, key=key_of(request))
    facts = {"id": line.pk, "by": viewer.name, "kind": line.kind, "text": line.text}
    return Status(201, {**facts, "mentions": line.mentions, "at": line.at})


@router.post("/requests/{request_id}/assign", response=AssignOut)
def assign_request(request: HttpRequest, request_id: str, given: AssignIn) -> Any:
    """Assign it to someone who may answer it, or to no one. 422 at ``to`` for others."""
    assigned = actions.assign_request(viewer_of(request), request_id, given.to, key=key_of(request))
    return {"request": assigned.pk, "assignee": assigned.assignee.get_username() if assigned.assignee else ""}


@router.post("/requests/{request_id}/deadline", response=DueOut)
def extend_deadline(request: HttpRequest, request_id: str, given: DueIn) -> Any:
    """Change its deadline, with reminder, escalation and default answer. 422 at ``due`` for a time in the past."""
    moved = actions.extend_deadline(viewer_of(request), request_id, given.due, key=key_of(request))
    return {"request": moved.pk, "due": moved.due}


@router.put("/requests/{request_id}/draft", response={204: None})
def save_draft(request: HttpRequest, request_id: str, given: DraftIn) -> Any:
    """Save one's own draft."""
    actions.save_draft(viewer_of(request), request_id, given.fields)
    return Status(204, None)


@router.delete("/requests/{request_id}/draft", response={204: None})
def drop_draft(request: HttpRequest, request_id: str) -> Any:
    """Delete one's own draft."""
    actions.drop_draft(viewer_of(request), request_id)
    return Status(204, None)


@router.post("/requests/{request_id}/amend", response={204: None})
def amend_request(request: HttpRequest, request_id: str, given: AmendIn) -> Any:
    """Add to body and evidence; people who have it open are shown the difference. The proposal does not change."""
    actions.amend_request(viewer_of(request), request_id, body=given.body, evidence=given.evidence, key=key_of(request))
    return Status(204, None)


@router.get("/requests/{request_id}/people", response=list[PersonOut])
def list_people(request: HttpRequest, request_id: str) -> Any:
    """Return the other people who have it open now."""
    return list(queries.collaboration(queries.request(viewer_of(request), request_id)).people)

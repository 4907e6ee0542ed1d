"""The API of collaboration on a request: comments, assignment, deadline, drafts, additions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from checkpoints.models import Draft
from wfdash.access.viewer import Viewer
from wfdash.actions.requests import amend, collaboration, deadlines
from wfdash.actions.requests.collaboration import take_over
from wfdash.actions.requests.comments import ask_back, comment_on, reply_to_ask
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.etags import if_match, with_etag
from wfdash.api.once import once
from wfdash.errors import NotFound
from wfdash.queries.requests.collaboration import read_collaboration, read_thread
from wfdash.queries.requests.request import read_request
from wfdash.records.requests import (
    Amend,
    Assign,
    Assignment,
    CommentPage,
    CommentRecord,
    Deadline,
    DraftRecord,
    PresencePage,
    SaveDraft,
    SetDeadline,
    WriteComment,
)

router = Router()


@router.get("/requests/{request_id}/comments", response=CommentPage)
def list_comments(request: HttpRequest, request_id: str) -> Any:
    """Return the thread, oldest first."""
    return {"items": read_thread(read_request(viewer_of(request), request_id))}


@router.post("/requests/{request_id}/comments", response={201: CommentRecord})
def write_comment(request: HttpRequest, request_id: str, given: WriteComment) -> Any:
    """Comment, ask back, or reply to a question."""
    verbs = {"comment": comment_on, "ask": ask_back, "reply": reply_to_ask}
    viewer = viewer_of(request)
    line = verbs[given.kind](viewer, request_id, given.text, key=key_of(request))
    facts = {"id": line.pk, "by": viewer.name, "kind": line.kind, "text": line.text}
    return Status(201, {**facts, "mentions": line.mentions, "at": line.at})


@router.post("/requests/{request_id}/assign", response=Assignment)
def assign_request(request: HttpRequest, request_id: str, given: Assign) -> Any:
    """Assign it to someone who may answer it, or to no one. 422 at ``to`` for others."""
    assigned = collaboration.assign_request(viewer_of(request), request_id, given.to, key=key_of(request))
    return {"request": assigned.pk, "assignee": assigned.assignee.get_username() if assigned.assignee else ""}


@router.post("/requests/{request_id}/deadline", response=Deadline)
def extend_deadline(request: HttpRequest, request_id: str, given: SetDeadline) -> Any:
    """Change its deadline, with reminder, escalation and default answer. 422 at ``due`` for a time in the past."""
    moved = deadlines.extend_deadline(viewer_of(request), request_id, given.due, key=key_of(request))
    return {"request": moved.pk, "due": moved.due}


@router.post("/requests/{request_id}/take", response={204: None})
def take_request(request: HttpRequest, request_id: str) -> Any:
    """Take it over from those who have it open, and notify them. They can still answer."""
    once(request, "take", [request_id], lambda: take_over(viewer_of(request), request_id))
    return Status(204, None)


@router.get("/requests/{request_id}/draft", response=DraftRecord)
def get_draft(request: HttpRequest, response: HttpResponse, request_id: str) -> Any:
    """Return your own draft of an answer. 404 without one. Its ``ETag`` is what ``If-Match`` takes."""
    draft = read_collaboration(read_request(viewer_of(request), request_id)).draft
    if draft is None:
        raise NotFound("You have no draft of an answer to this request")
    with_etag(response, _drafted(draft))
    return draft


@router.put("/requests/{request_id}/draft", response={204: None})
def save_draft(request: HttpRequest, request_id: str, given: SaveDraft) -> Any:
    """Save your own draft. With ``If-Match`` only in place of the one that was read."""
    with _drafting(request, request_id) as viewer:
        collaboration.save_draft(viewer, request_id, given.fields)
    return Status(204, None)


@router.delete("/requests/{request_id}/draft", response={204: None})
def drop_draft(request: HttpRequest, request_id: str) -> Any:
    """Delete your own draft. With ``If-Match`` only the one that was read."""
    with _drafting(request, request_id) as viewer:
        collaboration.drop_draft(viewer, request_id)
    return Status(204, None)


@router.post("/requests/{request_id}/amend", response={204: None})
def amend_request(request: HttpRequest, request_id: str, given: Amend) -> Any:
    """Add to body and evidence; people who have it open are shown the difference. The proposal does not change."""
    amend.amend_request(viewer_of(request), request_id, body=given.body, evidence=given.evidence, key=key_of(request))
    return Status(204, None)


@router.get("/requests/{request_id}/people", response=PresencePage)
def list_present(request: HttpRequest, request_id: str) -> Any:
    """Return the other people who have it open now."""
    return {"items": read_collaboration(read_request(viewer_of(request), request_id)).people}


@contextmanager
def _drafting(request: HttpRequest, request_id: str) -> Iterator[Viewer]:
    """Yield the viewer for a change of their draft, as ``If-Match`` allows."""
    viewer = viewer_of(request)

    def present() -> dict[str, Any]:
        draft = read_collaboration(read_request(viewer, request_id)).draft
        return _drafted(draft) if draft else {}

    with if_match(request, Draft.objects.filter(request_id=request_id, user=viewer.user), present):
        yield viewer


def _drafted(draft: DraftRecord) -> dict[str, Any]:
    """Return what a change replaces."""
    return {"fields": draft.fields}

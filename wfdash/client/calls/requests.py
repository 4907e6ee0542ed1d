"""Calls about requests, and about the answers of people."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from wfdash.client.calls.paging import pages
from wfdash.client.script import Script
from wfdash.client.sending import get, part, post
from wfdash.records.requests import (
    AcceptedAnswer,
    Assignment,
    CommentPage,
    CommentRecord,
    Deadline,
    RequestDetail,
    RequestPage,
    RequestSummary,
)

Tab = Literal["mine", "groups", "unassigned", "asked", "all", "answered"]


def requests(filter: str = "", *, tab: Tab = "all", limit: int = 50, after: str = "") -> Script[RequestPage]:  # noqa: A002
    """Return a page of requests. ``filter``: as in the inbox, ``workflow:refund risk:high``; ``run:ID`` of one run."""
    return RequestPage.model_validate((yield from get("/requests", q=filter, tab=tab, limit=limit, after=after)))


def all_requests(filter: str = "", *, tab: Tab = "all", most: int | None = None) -> Script[None]:  # noqa: A002
    """Emit the requests that a filter finds, page by page."""
    yield from pages("/requests", RequestSummary.model_validate, {"q": filter, "tab": tab}, most=most)


def request(request_id: str, *, wait: float = 0.0, patience: float | None = None) -> Script[RequestDetail]:
    """Return a request with its card and the schema of its answer.

    ``wait``: seconds, at most 60, that the server waits until it is answered or closed.
    """
    found = yield from get(f"/requests/{part(request_id)}", wait=int(wait) or None, timeout=wait, patience=patience)
    return RequestDetail.model_validate(found)


def answer(
    request_id: str,
    value: Any,
    *,
    reason: str = "",
    seen: str = "",
    override: bool = False,
    on_behalf_of: str = "",
    as_text: bool = False,
    key: str | None = None,
) -> Script[AcceptedAnswer]:
    """Answer a request. The value has to match its ``answer_schema``: ``{"action": "approve"}`` for an approval.

    ``seen``: what ``request`` returned as ``seen``, if the answer counts only for that. ``as_text``: a text that reads
    like yes or no is meant as text, where the question does not say what it takes. ``AlreadyAnswered`` says who was
    first.
    """
    body: dict[str, Any] = {"value": value, "reason": reason, "seen": seen, "override": override}
    body |= {"on_behalf_of": on_behalf_of, **({"as_text": True} if as_text else {})}
    return AcceptedAnswer.model_validate((yield from post(f"/requests/{part(request_id)}/answer", body, key=key)))


def undo(request_id: str) -> Script[None]:
    """Undo one's own answer, or withdraw one's vote, while it has not taken effect."""
    yield from post(f"/requests/{part(request_id)}/undo")


def comments(request_id: str) -> Script[list[CommentRecord]]:
    """Return what was said about a request, oldest first."""
    return list(CommentPage.model_validate((yield from get(f"/requests/{part(request_id)}/comments"))).items)


def comment(request_id: str, text: str) -> Script[CommentRecord]:
    """Comment on a request."""
    return CommentRecord.model_validate((yield from post(f"/requests/{part(request_id)}/comments", {"text": text})))


def assign(request_id: str, to: str | None) -> Script[Assignment]:
    """Assign a request to someone who may answer it, or to no one."""
    return Assignment.model_validate((yield from post(f"/requests/{part(request_id)}/assign", {"to": to})))


def set_deadline(request_id: str, due: datetime) -> Script[Deadline]:
    """Change the deadline of a request."""
    found = yield from post(f"/requests/{part(request_id)}/deadline", {"due": due.isoformat()})
    return Deadline.model_validate(found)

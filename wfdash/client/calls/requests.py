"""Calls about requests, the answers of people, and drafts of answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from wfdash.client.errors import NotFound
from wfdash.client.script import Script
from wfdash.client.sending import get, if_unchanged, pages, part, pieces, post, tell
from wfdash.records.requests import (
    AcceptedAnswer,
    Assignment,
    CommentPage,
    CommentRecord,
    Deadline,
    DecisionPage,
    DecisionRecord,
    DraftRecord,
    OutcomeList,
    RequestDetail,
    RequestOutcome,
    RequestPage,
    RequestSummary,
    RuleDetail,
    RulePage,
    Snoozed,
    Tab,
    UndoneCount,
)


def requests(filter: str = "", *, tab: Tab = "all", limit: int = 50, after: str = "") -> Script[RequestPage]:  # noqa: A002
    """Return a page of requests. ``filter``: as in the inbox, ``workflow:refund risk:high``; ``run:ID`` of one run."""
    return get("/requests", RequestPage, q=filter, tab=tab, limit=limit, after=after)


def all_requests(filter: str = "", *, tab: Tab = "all", most: int | None = None) -> Script[None]:  # noqa: A002
    """Emit the requests that a filter finds, page by page."""
    return pages("/requests", RequestSummary, {"q": filter, "tab": tab}, most=most)


def request(request_id: str, *, wait: float = 0.0, patience: float | None = None) -> Script[RequestDetail]:
    """Return a request with its card and the schema of its answer.

    ``wait``: seconds, at most 60, that the server waits until it is answered or closed.
    """
    return get(f"/requests/{part(request_id)}", RequestDetail, wait=int(wait) or None, timeout=wait, patience=patience)


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
    return post(f"/requests/{part(request_id)}/answer", AcceptedAnswer, body, key=key)


def undo(request_id: str) -> Script[None]:
    """Undo one's own answer, or withdraw one's vote, while it has not taken effect."""
    return tell("POST", f"/requests/{part(request_id)}/undo")


def comments(request_id: str) -> Script[list[CommentRecord]]:
    """Return what was said about a request, oldest first."""
    return list((yield from get(f"/requests/{part(request_id)}/comments", CommentPage)).items)


def comment(request_id: str, text: str) -> Script[CommentRecord]:
    """Comment on a request."""
    return post(f"/requests/{part(request_id)}/comments", CommentRecord, {"text": text})


def assign(request_id: str, to: str | None) -> Script[Assignment]:
    """Assign a request to someone who may answer it, or to no one."""
    return post(f"/requests/{part(request_id)}/assign", Assignment, {"to": to})


def set_deadline(request_id: str, due: datetime) -> Script[Deadline]:
    """Change the deadline of a request."""
    return post(f"/requests/{part(request_id)}/deadline", Deadline, {"due": due.isoformat()})


def snooze(request_id: str, until: datetime | None) -> Script[Snoozed]:
    """Keep a request out of one's own queue until a time, when one is reminded; None: no longer."""
    return post(f"/requests/{part(request_id)}/snooze", Snoozed, {"until": until and until.isoformat()})


# Calls about many requests at once, about decisions that were made, and about drafts of answers.


def decisions(filter: str = "", *, limit: int = 50, after: str = "") -> Script[DecisionPage]:  # noqa: A002
    """Return a page of decisions, the latest first. ``filter``: as on their page."""
    return get("/decisions", DecisionPage, q=filter, limit=limit, after=after)


def all_decisions(filter: str = "", *, most: int | None = None) -> Script[None]:  # noqa: A002
    """Emit the decisions that a filter finds, the latest first, page by page."""
    return pages("/decisions", DecisionRecord, {"q": filter}, most=most)


def rules(workflow: str = "") -> Script[RulePage]:
    """Return the rules of a workflow, or of all, the newest first."""
    return get("/rules", RulePage, workflow=workflow)


def rule(rule_id: int) -> Script[RuleDetail]:
    """Return a rule with its rehearsal, and what people decided that fits it."""
    return get(f"/rules/{part(str(rule_id))}", RuleDetail)


def move_rule(rule_id: int, to: str, *, reason: str = "", key: str | None = None) -> Script[RuleDetail]:
    """Have a rule ``rehearsed``, ``shadow`` (beside people), ``on`` or ``suspended``."""
    return post(f"/rules/{part(str(rule_id))}/state", RuleDetail, {"to": to, "reason": reason}, key=key)


def export_decisions(filter: str = "", *, names: bool = False) -> Script[None]:  # noqa: A002
    """Emit the bytes of a data set: one ``DecisionExample`` as JSON a line, the latest first, secrets masked.

    ``names``: people by name instead of by their groups. It is an entry of the audit log. ``Unreachable`` if the
    connection breaks: what has come is then only a part.
    """
    return pieces("/decisions/export", q=filter, names=names or None)


def answer_many(
    requests: Iterable[RequestDetail], value: Any, *, verdict: str = "", key: str | None = None
) -> Script[list[RequestOutcome]]:
    """Give requests of one kind, as they were read, the same answer. One refusal stops no other.

    Returns what became of each: ``problem`` says why one is unchanged.
    """
    chosen = [{"id": one.id, "seen": one.seen} for one in requests]
    body = {"requests": chosen, "value": value, "verdict": verdict}
    return list((yield from post("/requests/answer", OutcomeList, body, key=key)).items)


def assign_many(request_ids: Sequence[str], to: str | None) -> Script[list[RequestOutcome]]:
    """Assign requests to someone who may answer them, or to no one. One refusal stops no other."""
    body = {"requests": list(request_ids), "to": to}
    return list((yield from post("/requests/assign", OutcomeList, body)).items)


def undo_many(request_ids: Sequence[str]) -> Script[UndoneCount]:
    """Undo one's own answers to requests, where they have not taken effect. Returns how many."""
    return post("/requests/undo", UndoneCount, {"requests": list(request_ids)})


def draft(request_id: str) -> Script[DraftRecord | None]:
    """Return one's own draft of an answer, None without one."""
    try:
        return (yield from get(f"/requests/{part(request_id)}/draft", DraftRecord))
    except NotFound:
        # A request that is not there is an error, no missing draft.
        yield from get(f"/requests/{part(request_id)}", RequestDetail)
        return None


def save_draft(request_id: str, fields: dict[str, list[str]], *, instead_of: DraftRecord | None = None) -> Script[None]:
    """Save one's own draft of an answer: names and values of fields as the request's form has them.

    ``instead_of``: the draft that it replaces, as it was read; ``Outdated`` if there is another by now.
    """
    path = f"/requests/{part(request_id)}/draft"
    yield from tell("PUT", path, {"fields": fields}, headers=(yield from _instead_of(path, instead_of)))


def drop_draft(request_id: str, *, instead_of: DraftRecord | None = None) -> Script[None]:
    """Delete one's own draft; with ``instead_of`` only that one."""
    path = f"/requests/{part(request_id)}/draft"
    yield from tell("DELETE", path, headers=(yield from _instead_of(path, instead_of)))


def _instead_of(path: str, draft: DraftRecord | None) -> Script[dict[str, str]]:
    if draft is None:
        return {}
    return (yield from if_unchanged(path, lambda found: DraftRecord.model_validate(found) == draft))


def amend(request_id: str, *, body: str = "", evidence: Sequence[dict[str, Any]] = ()) -> Script[None]:
    """Add Markdown to the body of a card, and pieces of evidence: ``{kind, title, value}``."""
    return tell("POST", f"/requests/{part(request_id)}/amend", {"body": body, "evidence": list(evidence)})

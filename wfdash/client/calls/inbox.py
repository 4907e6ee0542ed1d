"""Calls about many requests at once, about decisions that were made, and about drafts of answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wfdash.client.calls.paging import pages
from wfdash.client.errors import NotFound
from wfdash.client.script import Script
from wfdash.client.sending import delete, get, if_unchanged, part, post, put
from wfdash.records.inbox import DecisionPage, DecisionRecord, OutcomeList, RequestOutcome, UndoneCount
from wfdash.records.requests import DraftRecord, RequestDetail


def decisions(filter: str = "", *, limit: int = 50, after: str = "") -> Script[DecisionPage]:  # noqa: A002
    """Return a page of decisions, the latest first. ``filter``: as on their page."""
    return DecisionPage.model_validate((yield from get("/decisions", q=filter, limit=limit, after=after)))


def all_decisions(filter: str = "", *, most: int | None = None) -> Script[None]:  # noqa: A002
    """Emit the decisions that a filter finds, the latest first, page by page."""
    yield from pages("/decisions", DecisionRecord.model_validate, {"q": filter}, most=most)


def answer_many(
    requests: Iterable[RequestDetail], value: Any, *, verdict: str = "", key: str | None = None
) -> Script[list[RequestOutcome]]:
    """Give requests of one kind, as they were read, the same answer. One refusal stops no other.

    Returns what became of each: ``problem`` says why one is unchanged.
    """
    chosen = [{"id": one.id, "seen": one.seen} for one in requests]
    body = {"requests": chosen, "value": value, "verdict": verdict}
    return list(OutcomeList.model_validate((yield from post("/requests/answer", body, key=key))).items)


def assign_many(request_ids: Sequence[str], to: str | None) -> Script[list[RequestOutcome]]:
    """Assign requests to someone who may answer them, or to no one. One refusal stops no other."""
    body = {"requests": list(request_ids), "to": to}
    return list(OutcomeList.model_validate((yield from post("/requests/assign", body))).items)


def undo_many(request_ids: Sequence[str]) -> Script[UndoneCount]:
    """Undo one's own answers to requests, where they have not taken effect. Returns how many."""
    return UndoneCount.model_validate((yield from post("/requests/undo", {"requests": list(request_ids)})))


def draft(request_id: str) -> Script[DraftRecord | None]:
    """Return one's own draft of an answer, None without one."""
    try:
        return DraftRecord.model_validate((yield from get(f"/requests/{part(request_id)}/draft")))
    except NotFound:
        yield from get(f"/requests/{part(request_id)}")  # A request that is not there is an error, no missing draft.
        return None


def save_draft(request_id: str, fields: dict[str, list[str]], *, instead_of: DraftRecord | None = None) -> Script[None]:
    """Save one's own draft of an answer: names and values of fields as the request's form has them.

    ``instead_of``: the draft that it replaces, as it was read; ``Outdated`` if there is another by now.
    """
    path = f"/requests/{part(request_id)}/draft"
    yield from put(path, {"fields": fields}, headers=(yield from _instead_of(path, instead_of)))


def drop_draft(request_id: str, *, instead_of: DraftRecord | None = None) -> Script[None]:
    """Delete one's own draft; with ``instead_of`` only that one."""
    path = f"/requests/{part(request_id)}/draft"
    yield from delete(path, headers=(yield from _instead_of(path, instead_of)))


def _instead_of(path: str, draft: DraftRecord | None) -> Script[dict[str, str]]:
    if draft is None:
        return {}
    return (yield from if_unchanged(path, lambda found: DraftRecord.model_validate(found) == draft))


def amend(request_id: str, *, body: str = "", evidence: Sequence[dict[str, Any]] = ()) -> Script[None]:
    """Add Markdown to the body of a card, and pieces of evidence: ``{kind, title, value}``."""
    yield from post(f"/requests/{part(request_id)}/amend", {"body": body, "evidence": list(evidence)})

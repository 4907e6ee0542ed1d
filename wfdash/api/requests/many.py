"""The API of the inbox as a whole: counts, decisions made, many requests at once."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from wfdash.actions.requests.assign_many import assign_requests
from wfdash.actions.requests.batch import answer_batch, undo_batch
from wfdash.api.auth import viewer_of
from wfdash.api.once import bound_key
from wfdash.api.params import Limit
from wfdash.queries.requests.decisions import read_decisions
from wfdash.queries.requests.tabs import count_tabs
from wfdash.records.inbox import AnswerMany, AssignMany, DecisionPage, InboxCounts, OutcomeList, UndoMany, UndoneCount

router = Router()


@router.get("/requests/counts", response=InboxCounts)
def count_requests(request: HttpRequest, q: str = "") -> Any:
    """Return how many requests each tab of the inbox has under a filter."""
    return {"tabs": count_tabs(viewer_of(request), q)}


@router.get("/decisions", response=DecisionPage)
def list_decisions(request: HttpRequest, q: str = "", after: str = "", limit: Limit = 50) -> Any:
    """Return decisions, the latest first; ``q`` is the filter language of their page."""
    return read_decisions(viewer_of(request), q, cursor=after, limit=limit)


@router.post("/requests/answer", response=OutcomeList)
def answer_many(request: HttpRequest, given: AnswerMany) -> Any:
    """Give several requests the same answer. Each is checked by itself; one refusal stops no other."""
    chosen = [(one.id, one.seen) for one in given.requests]
    with bound_key(request, "answer many", given.model_dump()) as key:
        return {"items": answer_batch(viewer_of(request), chosen, given.value, verdict=given.verdict, key=key)}


@router.post("/requests/assign", response=OutcomeList)
def assign_many(request: HttpRequest, given: AssignMany) -> Any:
    """Assign several requests. One refusal stops no other."""
    with bound_key(request, "assign many", given.model_dump()) as key:
        return {"items": assign_requests(viewer_of(request), given.requests, given.to, key=key)}


@router.post("/requests/undo", response=UndoneCount)
def undo_many(request: HttpRequest, given: UndoMany) -> Any:
    """Undo your own answers to several requests, where they have not taken effect. Doing it twice changes nothing."""
    with bound_key(request, "undo many", given.model_dump()) as key:
        undone, late = undo_batch(viewer_of(request), given.requests, key=key)
    return {"undone": undone, "late": late}

"""The API of answers: give one, and undo it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from wfdash.access.voters import vote_progress
from wfdash.actions.requests import answer
from wfdash.api.auth import key_of, viewer_of
from wfdash.records.requests import AcceptedAnswer, GiveAnswer
from wfdash.schemas.secrets import masked
from wfdash.timemachine.restore_point import secrets_in

router = Router()


@router.post("/requests/{request_id}/answer", response=AcceptedAnswer)
def answer_request(request: HttpRequest, request_id: str, given: GiveAnswer) -> Any:
    """Answer. 422 with errors per field, 409 with the earlier answer, or with what changed since ``seen``."""
    reply = answer.answer_request(
        viewer_of(request), request_id, given.value, **given.model_dump(exclude={"value"}), key=key_of(request)
    )
    value = masked(reply.value, secrets_in(reply.request))
    facts = {"request": reply.request_id, "verdict": reply.verdict, "value": value, "at": reply.at}
    votes, need, decided = vote_progress(reply)
    counted = {"votes": votes, "need": need, "decided": decided}
    return {**facts, "settles": reply.settles, "stands": reply.stands, **counted}


@router.post("/requests/{request_id}/undo", response={204: None})
def undo_answer(request: HttpRequest, request_id: str) -> Any:
    """Undo one's own answer or vote. 409 when it has taken effect."""
    answer.undo_answer(viewer_of(request), request_id, key=key_of(request))
    return Status(204, None)

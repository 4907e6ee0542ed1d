"""Answers given to ``run``, checked against those accepted before: which fit, which are late or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints import rules
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey, RunId
from checkpoints.records import Answer, Checkpoint, Commit, EventDraft, Json, Request
from checkpoints.storage import RemembersAnswers
from wfdash.contract import InvalidInput
from wfdash.questions.card import Given
from wfdash.schemas.validate import answer_problems
from wfdash.workflow.answers.answer_types import check_answer
from wfdash.workflow.compiler.graph import Graph
from wfdash.workflow.errors import InvalidCall


def read_answers(
    graph: Graph,
    checkpoint: Checkpoint,
    given: Mapping[Any, Any],
    past: Mapping[RequestKey, Answer],
    *,
    accepted: bool = False,
) -> dict[RequestKey, Answer]:
    """Return the answers as records. ``InvalidInput`` for a value that does not fit its request.

    ``past``: what was answered in this run before. ``AlreadyAnswered`` for a request that is answered and gone,
    ``InvalidCall`` for a key that was never asked. ``accepted``: they were accepted before.
    """
    pending = {request.key: request for request in checkpoint.requests}
    for key in given:
        if key not in pending and key in past:
            raise rules.already_answered(past[key], checkpoint.run)
    unknown = [str(key) for key in given if key not in pending]
    if unknown:
        known = ", ".join(pending) or "none"
        raise InvalidCall(f"answers= for {', '.join(unknown)}: no such pending request (pending: {known})")
    return {key: _answer(graph, pending[key], value, accepted) for key, value in given.items()}


async def past_answers(storage: object, run: RunId) -> Mapping[RequestKey, Answer]:
    """Return what was answered in a run before, as far as its storage can tell."""
    return await storage.read_past_answers(run) if isinstance(storage, RemembersAnswers) else {}


def merge_answers(
    graph: Graph, checkpoint: Checkpoint, given: Mapping[RequestKey, Answer], accepted: Mapping[RequestKey, Answer]
) -> dict[RequestKey, Answer]:
    """Return the answers the run continues with: what was accepted, and what is given for the rest.

    ``AlreadyAnswered`` if another value was accepted; ``InvalidInput`` if an accepted one does not fit its request,
    with the way to ask again.
    """
    pending = {request.key: request for request in checkpoint.requests}
    for key, answer in given.items():
        rules.is_first_answer(checkpoint.run, answer, accepted.get(key))
    try:
        taken = {key: _answer(graph, pending[key], answer, True) for key, answer in accepted.items() if key in pending}
    except InvalidInput as error:
        way = f"accepted before; await CheckpointManager(storage).restore(run, {checkpoint.id!r}) asks again"
        raise InvalidInput([{**one, "msg": f"{one['msg']} ({way})"} for one in error.errors]) from error
    return {**given, **taken}


def acceptance_of(checkpoint: Checkpoint, given: Mapping[RequestKey, Answer]) -> Commit:
    """Return the commit that records answers before anything runs with them."""
    steps = {request.key: request for request in checkpoint.requests}
    events = tuple(_answered(steps[key], answer) for key, answer in given.items())
    return Commit(run=checkpoint.run, answered=tuple(given.values()), events=events)


def _answered(request: Request, answer: Answer) -> EventDraft:
    facts: dict[str, Json] = {"key": request.key, "subject": str(request.card.get("subject") or "")}
    facts |= {"by": answer.by, "verdict": rules.verdict_of(answer.value)}
    return EventKind.REQUEST_ANSWERED.draft(request.step, **facts)


def _answer(graph: Graph, request: Request, value: Any, accepted: bool) -> Answer:
    """Return a value as the answer to a request. The type of one that was accepted may have changed since.

    Then its step asks once more.
    """
    answer = value if isinstance(value, Answer) else Answer(key=request.key, value=_jsonable(value))
    if answer.key != request.key:
        raise InvalidCall(f"answers= for {request.key}: the Answer has key={answer.key!r}")
    found = answer_problems(request.card, request.answer_schema, answer.value)
    found = found or ([] if accepted else check_answer(graph, request, answer.value))
    if found:
        raise InvalidInput([{"loc": [request.key, *one["loc"]], "msg": one["msg"]} for one in found])
    return answer


def _jsonable(value: Any) -> Any:
    if isinstance(value, Given):
        return value.model_dump(mode="json", exclude_unset=True)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value

"""Whether a value is a valid answer to a request: by the schema that was shown, then by the engine that asked."""

from __future__ import annotations

from checkpoints import records
from checkpoints.ids import RequestKey
from checkpoints.models import HumanRequest
from checkpoints.records import Json
from wfdash import catalog
from wfdash.contract import ChecksAnswers
from wfdash.schemas.validate import Problem, answer_problems


def validate_answer(request: HumanRequest, value: Json) -> list[Problem] | None:
    """Return what is wrong with an answer, by field; empty if the step will accept it as far as is known here, None if
    its schema alone accepts it: no process with the author's checks could be asked.

    The engine is asked where its workflow is loaded and it knows more than the schema. That may run the author's own
    checks of the answer, so this must not be called inside a transaction.
    """
    found = answer_problems(request.card, request.answer_schema, value)
    if found or (entry := catalog.find(request.workflow)) is None:
        return found or None
    if not isinstance(entry.engine, ChecksAnswers):
        return []
    asked = records.Request(
        key=RequestKey(request.key), step=request.step, kind=request.kind, answer_schema=request.answer_schema
    )
    return entry.engine.check_answer(entry.definition, asked, value)

"""Calls that ask people: a question as a run of ``ask_people``, and its answer typed as it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict

from typing_extensions import Unpack

from wfdash.client.calls import runs
from wfdash.client.errors import NotAllowed, NotAnswered, NotFound
from wfdash.client.script import Script
from wfdash.questions.card import Given
from wfdash.questions.cards import prepare
from wfdash.records.runs import Callback, RunDetail, RunError
from wfdash.workflow import Approval, Choice, Policy
from wfdash.workflow.asking.question import PeopleAnswer, question_of

WORKFLOW = "ask_people"
FOREVER = float("inf")
MISSING = "{detail}. To ask people, an installation needs the workflow ask_people, and you the right to start it"


class QuestionTerms(TypedDict, total=False):
    """How a question is asked. ``by``, ``not_by``, ``due`` and ``policy`` as in ``ctx.ask``.

    ``ref``: your own name for the question. The same ref finds the same question again, after a restart or from another
    process; each person who asks has refs of their own. ``callback``: where the answer is delivered besides, once it is
    there; ``verify_callback`` reads it.
    """

    by: str | Sequence[str]
    not_by: str | Sequence[str]
    due: str | datetime | None
    policy: Policy | None
    ref: str | None
    callback: Callback | None


class Terms(QuestionTerms, total=False):
    """How a question is asked and waited for. ``timeout``: seconds after which ``TimedOut`` is raised; the question
    stays open.
    """

    timeout: float | None


def open_question(card: Any, answer: Any = None, **terms: Unpack[QuestionTerms]) -> Script[RunDetail]:
    """Ask people, and return the run that waits for their answer: ``ask`` with the same ``ref`` waits for it.

    ``card`` and ``answer`` as in ``ask``.
    """
    return (yield from _opened(*card_of(card, answer), patience=None, **terms))


def asked(
    card: Any, answer: Any = None, *, timeout: float | None = None, **terms: Unpack[QuestionTerms]
) -> Script[Any]:
    """Open the question unless it is known by its ref, wait, and return the answer."""
    card, answer = card_of(card, answer)
    run = yield from _opened(card, answer, patience=FOREVER if timeout is None else timeout, **terms)
    ended = yield from runs.wait(run.id, timeout=timeout)
    if ended.status != "completed":
        raise NotAnswered(_why(ended.status, ended.error, ended.id), run=ended.id, status=ended.status)
    return read_answer(card, answer, PeopleAnswer.model_validate(ended.output or {}))


def _opened(
    card: Any,
    answer: Any,
    *,
    patience: float | None,
    ref: str | None = None,
    callback: Callback | None = None,
    **terms: Any,
) -> Script[RunDetail]:
    question = question_of(card, answer, **terms)
    key = f"ask:{ref}" if ref else None
    try:
        return (yield from runs.start(WORKFLOW, question, key=key, callback=callback, patience=patience))
    except (NotFound, NotAllowed) as error:
        error.detail = MISSING.format(detail=error.detail.rstrip("."))
        raise


def card_of(card: Any, answer: Any) -> tuple[Any, Any]:
    """Return card and answer, for a subject with what it may be answered with."""
    if isinstance(card, str) and isinstance(answer, type) and issubclass(answer, Approval):
        return answer(subject=card), None
    if isinstance(card, str) and isinstance(answer, list):
        return Choice(subject=card, options=answer), None
    return card, answer


def read_answer(card: Any, answer: Any, given: PeopleAnswer) -> Any:
    """Return what people answered as what the question asks for; a decision with who gave it and when."""
    value = prepare(card, answer).read(given.value, None)
    if isinstance(value, Given):
        return value.model_copy(update={"by": given.by, "at": given.at, "lapsed": given.lapsed})
    return value


def _why(status: str, error: RunError | None, run: str) -> str:
    reason = error.message if error else ""
    return f"The question ended without an answer: its run {run} is {status}" + (f" ({reason})" if reason else "")

"""One step by itself: the engine runs it, a test gives the answers and replaces the calls. No database, no Django."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import wraps
from typing import Any

from checkpoints.recorder import utc_now
from checkpoints.records import Json, Request
from wfdash.contract import Outcome, Waiting, answer_to
from wfdash.questions.choices import name_in
from wfdash.workflow import Workflow
from wfdash.workflow.authoring import Step
from wfdash.workflow.runtime.call import UNSET
from wfdash.workflow.runtime.invoke import calls_replaced
from wfdash.workflow.runtime.recorders import OwnRecorder

Answers = Sequence[Any] | Mapping[str, Any]
SIGNAL = "signal"


class Unanswered(LookupError):
    """The step asked something for which the test gives no answer: the message says what."""


class SkippingRecorder(OwnRecorder):
    """Keeps nothing, and has a clock that a sleep moves on."""

    moved = timedelta()

    def now(self) -> datetime:
        """Return the time after all sleeps."""
        return utc_now() + self.moved

    async def take_turn(self, name: str, every: float) -> float:
        """Wait for no rate."""
        return 0


async def run_step(
    step: Step,
    message: Any = UNSET,
    *,
    answers: Answers = (),
    calls: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Run one step and return what its function returns: ``await run_step(review, claim, answers=["approve"])``.

    ``answers``: in the order in which it asks, or by subject, kind of question, or name of a signal; the name of an
    action, or the answer itself. ``calls``: name of a ``ctx.call`` -> the function that is called instead; others are
    really made. Sleeps take no time. After each answer the step runs again from its top, as it does in earnest, so code
    that does not repeat itself fails here too. ``RunFailed`` if the step fails, ``InvalidInput`` for a message or an
    answer that does not fit, ``Unanswered`` for a question without an answer. Who may answer is not looked at.
    """
    returned: list[Any] = []
    lone = Workflow("step")
    alone = replace(step, start=True, after=None, when=None, otherwise=False, was=(), function=_kept(step, returned))
    lone.add(alone)
    replaced, given = dict(calls or {}), GivenAnswers(answers)
    with calls_replaced(lambda name, function: replaced.get(name, function)):
        outcome = await _driven(lone, None if message is UNSET else message, given)
    outcome.result()
    given.refuse_left()
    return returned[-1]


async def _driven(lone: Workflow, message: Any, given: GivenAnswers) -> Outcome:
    skipping = SkippingRecorder()
    outcome = await lone.run(message=message, storage=skipping, park_after=0)
    while isinstance(outcome, Waiting):
        if outcome.requests:
            answers = {request.key: given.to(request) for request in outcome.requests}
            outcome = await lone.run(checkpoint=outcome.checkpoint, answers=answers, park_after=0)
        else:
            skipping.moved = (outcome.until or utc_now()) - utc_now()
            outcome = await lone.run(checkpoint=outcome.checkpoint, storage=skipping, park_after=0)
    return outcome


class GivenAnswers:
    """The answers of a test, taken one by one, or by name."""

    def __init__(self, answers: Answers) -> None:
        self._named = dict(answers) if isinstance(answers, Mapping) else {}
        self._next = [] if isinstance(answers, Mapping) else list(answers)
        self._left = set(self._named)

    def to(self, request: Request) -> Json:
        """Return the answer to a request. ``Unanswered``."""
        names = _names_of(request)
        if self._next:
            return answer_to(request.answer_schema, self._next.pop(0), {})
        for name in names:
            if name in self._named:
                self._left.discard(name)
                return answer_to(request.answer_schema, self._named[name], {})
        raise Unanswered(f"step {request.step!r} asks {names[0]!r}: answers= has nothing for it ({', '.join(names)})")

    def refuse_left(self) -> None:
        """Raise ``Unanswered`` if the step did not ask all that the test answers."""
        left = sorted(self._left) or self._next
        if left:
            raise Unanswered(f"the step did not ask for the answers {left!r}")


def _names_of(request: Request) -> tuple[str, ...]:
    if request.kind == SIGNAL:
        return (name_in(request.key), SIGNAL)
    return (str(request.card.get("subject") or request.kind), request.kind)


def _kept(step: Step, returned: list[Any]) -> Callable[..., Any]:
    """Return the step's function, with what it returns kept as it is."""
    function = step.function
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def kept_async(*args: Any) -> Any:
            returned.append(await function(*args))
            return returned[-1]

        return kept_async

    @wraps(function)
    def kept(*args: Any) -> Any:
        returned.append(function(*args))
        return returned[-1]

    return kept

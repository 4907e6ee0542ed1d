"""Arguments of ``Workflow``: names, durations and ids as they are given, and what is wrong with them."""

from __future__ import annotations

import sys
from typing import Any

from checkpoints.limits import problem_of
from wfdash.questions.durations import Duration, span_of
from wfdash.workflow.authoring.steps import Function
from wfdash.workflow.errors import InvalidWorkflow


def checked(what: str, text: str) -> str:
    """Return a name that every storage can store; ``InvalidWorkflow`` says what is wrong with any other."""
    if problem := problem_of(what, text):
        raise InvalidWorkflow(f"{str(text)[:40]!r} is no {problem}")
    return text


def limit_of(timeout: Duration | None) -> float | None:
    """Return a step's ``timeout`` in seconds; ``InvalidWorkflow`` says what is wrong with it."""
    try:
        return None if timeout is None else span_of(timeout).total_seconds()
    except ValueError as error:
        raise InvalidWorkflow(f"timeout: {error}") from error


def refuse_bare(function: Function | None) -> None:
    """Raise ``InvalidWorkflow`` for a decorator without its parentheses."""
    if function is not None:
        raise InvalidWorkflow(
            f"the decorator of {getattr(function, '__name__', function)!r} lacks its parentheses: write"
            " .step(start=True), or .step(after=...) with the step that it follows"
        )


def local_names() -> dict[str, Any]:
    """Return the local names around the decorator that calls the caller of this: for annotations of steps declared in a
    function.
    """
    frame = sys._getframe(2)
    return {} if frame.f_code.co_name == "<module>" else dict(frame.f_locals)

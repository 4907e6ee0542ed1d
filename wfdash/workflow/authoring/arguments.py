"""Arguments of ``Workflow``: names, durations and ids as they are given, and what is wrong with them."""

from __future__ import annotations

import sys
from typing import Any

from checkpoints.ids import CheckpointId, RunId
from checkpoints.limits import problem_of
from checkpoints.records import Checkpoint
from wfdash.questions.durations import Duration, span_of
from wfdash.workflow.authoring.steps import Function
from wfdash.workflow.errors import InvalidCall, InvalidWorkflow


def checked(what: str, text: str) -> str:
    """Return a name that every storage can store; ``InvalidWorkflow`` says what is wrong with any other."""
    if problem := problem_of(what, text):
        raise InvalidWorkflow(f"{str(text)[:40]!r} is no {problem}")
    return text


def typed(checkpoint: Checkpoint | CheckpointId | str | None) -> Checkpoint | CheckpointId | None:
    """Return a checkpoint argument with its type: anything that is neither a record nor None is an id.

    ``InvalidCall`` for what can be neither.
    """
    if isinstance(checkpoint, tuple | list | int):
        raise InvalidCall(f"checkpoint= is a {type(checkpoint).__name__}: give a Checkpoint, or an id, which is text")
    return checkpoint if isinstance(checkpoint, Checkpoint) or checkpoint is None else CheckpointId(checkpoint)


def as_run_id(run: RunId | str | None) -> RunId | None:
    """Return a run's id with its type. ``InvalidCall`` for what is no text."""
    if run is not None and not isinstance(run, str):
        raise InvalidCall(f"run_id= is a {type(run).__name__}: an id is text of 1 to 200 characters")
    return None if run is None else RunId(run)


def seconds(park_after: Duration) -> float:
    """Return ``park_after`` in seconds; ``InvalidCall`` says what is wrong with it."""
    try:
        return span_of(park_after).total_seconds()
    except ValueError as error:
        raise InvalidCall(f"park_after: {error}") from error


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

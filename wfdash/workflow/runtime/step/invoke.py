"""Calls of the functions that a step records: sync or async, with retries, or another function in their place."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

from wfdash.workflow.authoring.retry import Retry
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.step.threads import in_thread

Replace: TypeAlias = Callable[[str, Callable[..., Any]], Callable[..., Any]]
"""``f(name, function)`` -> what is called instead, maybe the function itself."""
_replace: ContextVar[Replace | None] = ContextVar("wfdash_replace", default=None)


@contextlib.contextmanager
def calls_replaced(replace: Replace) -> Iterator[None]:
    """Let the runs that are driven inside of it call what ``replace`` returns: for tests."""
    token = _replace.set(replace)
    try:
        yield
    finally:
        _replace.reset(token)


def chosen(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a call of this name calls: the function that the step gives, unless it is replaced."""
    replace = _replace.get()
    return function if replace is None else replace(name, function)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which calls of a function are recorded where the step gives none."""
    return str(getattr(function, "__name__", type(function).__name__))


async def invoke(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str = "") -> Any:
    """Call a function, sync (in a thread) or async, and return what it returns. ``name``: that of the call."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    value = await in_thread(lambda: function(*args, **kwargs), name or name_of(function))
    return await value if inspect.isawaitable(value) else value


class RecordedCall:
    """A recorded call while it is made: it can wait for no one, as its run could not be put aside."""

    def __init__(self, step: object, name: str) -> None:
        self._step, self._name = step, name
        self.refused: InvalidCall | None = None
        """Why it fails, even if the function handles the error."""

    @contextlib.contextmanager
    def underway(self) -> Iterator[None]:
        """Mark what is done inside of it."""
        token = _made_now.set(self)
        try:
            yield
        except Exception as error:
            if self.refused is not None and error is not self.refused:
                raise self.refused from error
            raise
        finally:
            _made_now.reset(token)
        if self.refused is not None:
            raise self.refused

    @staticmethod
    def refuse(step: object, what: str) -> None:
        """Raise ``InvalidCall`` if a recorded call of this step is being made, inside of which it would wait."""
        call = _made_now.get()
        if call is not None and call._step is step:
            call.refused = InvalidCall(
                f"{what} inside of the call {call._name!r}: a recorded call cannot wait for people. Ask before it or"
                f" after it; a tool of an agent that asks is named by run_agent(..., replayed=[{call._name!r}])"
            )
            raise call.refused


_made_now: ContextVar[RecordedCall | None] = ContextVar("wfdash_recorded_call", default=None)


async def retrying(
    attempt_once: Callable[[], Coroutine[Any, Any, Any]],
    retry: Retry | None,
    pause: Callable[[float], Coroutine[Any, Any, None]],
) -> Any:
    """Do something until it succeeds, or its retry policy gives up: raises its last error then. ``pause(seconds)``."""
    attempt = 1
    while True:
        try:
            return await attempt_once()
        except Exception as error:
            delay = retry.delay_after(attempt, error) if retry is not None else None
            if delay is None:
                raise
            attempt += 1
            await pause(delay)

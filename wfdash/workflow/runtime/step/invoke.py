"""Calls of the functions that a step records: sync or async, with retries, or another function in their place."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

from wfdash.workflow.authoring.retry import Retry
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


async def invoke(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function, sync (in a thread) or async, and return what it returns."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    value = await in_thread(lambda: function(*args, **kwargs), name_of(function))
    return await value if inspect.isawaitable(value) else value


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

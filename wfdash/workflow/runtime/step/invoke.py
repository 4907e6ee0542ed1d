"""Calls of the functions that a step records: sync or async, with retries."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from wfdash.workflow.authoring.retry import Retry
from wfdash.workflow.runtime.step.threads import in_thread


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which calls of a function are recorded where the step gives none."""
    return str(getattr(function, "__name__", type(function).__name__))


async def invoke(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function, sync (in a thread) or async, and return what it returns."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    value = await in_thread(lambda: function(*args, **kwargs))
    return await value if inspect.isawaitable(value) else value


async def retrying(attempt_once: Callable[[], Coroutine[Any, Any, Any]], retry: Retry | None) -> Any:
    """Do something until it succeeds, or its retry policy gives up: raises its last error then."""
    attempt = 1
    while True:
        try:
            return await attempt_once()
        except Exception as error:
            delay = retry.delay_after(attempt, error) if retry is not None else None
            if delay is None:
                raise
            attempt += 1
            await asyncio.sleep(delay)

"""The threads that run plain functions of steps and calls, and the runs that still have one."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="wfdash-step")
"""Shared by all runs of the process; threads are started as they are needed."""

_run: ContextVar[str] = ContextVar("wfdash_run", default="")
_running: Counter[str] = Counter()
_lock = threading.Lock()


def belong_to(run: str) -> None:
    """Let plain functions that this task and its child tasks call count as this run's."""
    _run.set(run)


def still_running(run: str) -> int:
    """Return how many plain functions of a run have not ended in this process: no cancellation ends them."""
    return _running[run]


async def in_thread(function: Callable[[], T]) -> T:
    """Run a plain function in a thread, in a copy of the caller's context.

    A ``StopIteration`` of it is a ``RuntimeError`` with that cause, as it is of a coroutine.
    """
    context, run = contextvars.copy_context(), _run.get()
    with _lock:
        _running[run] += 1

    def end(_: Future[Any]) -> None:
        with _lock:
            _running[run] -= 1
            if not _running[run]:
                del _running[run]

    future = THREADS.submit(context.run, _ended_visibly, function)
    future.add_done_callback(end)
    return await asyncio.wrap_future(future)


def _ended_visibly(function: Callable[[], T]) -> T:
    try:
        return function()
    except StopIteration as error:
        # No future of asyncio can hold one: what awaits it would wait without end.
        raise RuntimeError("plain function raised StopIteration") from error

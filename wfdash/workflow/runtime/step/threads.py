"""The threads that run plain functions of steps and calls, and the functions that still run, by their run."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

THREADS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="wfdash-step")
"""Shared by all runs of the process; threads are started as they are needed."""


class Owner(Protocol):
    """The try at a step for which a plain function runs."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def timeout(self) -> asyncio.Timeout | None:
        """What limits its work."""

    def count_wait(self, change: int) -> None:
        """See ``StepOps.count_wait``."""

    def count_work(self, change: int) -> None:
        """See ``StepOps.count_work``."""


_owner: ContextVar[Owner | None] = ContextVar("wfdash_owner", default=None)
_running: dict[str, list[str]] = {}
_lock = threading.Lock()


def belong_to(owner: Owner) -> None:
    """Let plain functions that this task and its child tasks call count as this step's."""
    _owner.set(owner)


def still_running(run: str) -> tuple[str, ...]:
    """Return the names of a run's plain functions that have not ended in this process: no cancellation ends them."""
    with _lock:
        return tuple(_running.get(run, ()))


async def in_thread(function: Callable[[], T], name: str) -> T:
    """Run a plain function in a thread, in a copy of the caller's context.

    A ``StopIteration`` of it is a ``RuntimeError`` with that cause, as it is of a coroutine. A step's time limit stands
    still until a thread is free.
    """
    context, owner = contextvars.copy_context(), _owner.get()
    run = owner.run_id if owner is not None else ""
    with _lock:
        _running.setdefault(run, []).append(name)

    def end(_: Future[Any]) -> None:
        with _lock:
            names = _running[run]
            names.remove(name)
            if not names:
                del _running[run]

    if owner is None or owner.timeout is None:
        future = THREADS.submit(context.run, _ended_visibly, function)
        future.add_done_callback(end)
        return await asyncio.wrap_future(future)
    wait = WaitForThread(owner)
    future = THREADS.submit(wait.then, lambda: context.run(_ended_visibly, function))
    future.add_done_callback(end)
    try:
        return await asyncio.wrap_future(future)
    finally:
        wait.end()


class WaitForThread:
    """The wait for a free thread, which is no work of a step: ended once, when its function begins or is given up."""

    def __init__(self, owner: Owner) -> None:
        self._owner: Owner | None = owner
        self._loop = asyncio.get_running_loop()
        owner.count_work(-1)
        owner.count_wait(1)

    def then(self, function: Callable[[], T]) -> T:
        """Call the function, in a thread, once the step's loop was notified that it begins."""
        with contextlib.suppress(RuntimeError):  # That loop has ended, and the step with it.
            self._loop.call_soon_threadsafe(self.end)
        return function()

    def end(self) -> None:
        """End the wait."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.count_wait(-1)
            owner.count_work(1)


def _ended_visibly(function: Callable[[], T]) -> T:
    try:
        return function()
    except StopIteration as error:
        # No future of asyncio can hold one: what awaits it would wait without end.
        raise RuntimeError("plain function raised StopIteration") from error

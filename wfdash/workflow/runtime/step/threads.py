"""The threads that run plain functions of steps and calls, and what still runs in this process, by its run."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from wfdash.workflow.runtime.step.step_ops import StepOps, running_step

T = TypeVar("T")
LEAVE = 2.0
"""Seconds that cancelled code may take to let go; what has not by then is left to itself."""
THREADS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="wfdash-step")
"""Shared by all runs of the process; threads are started as they are needed."""


_running: dict[str, list[Running]] = {}
_waiting: dict[str, list[Callable[[], None]]] = {}
_lock = threading.Lock()


@dataclass(slots=True, eq=False)
class Running:
    """A function that has not ended; ``loop``: the event loop without which a coroutine never will."""

    run: str
    name: str
    loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Note that it runs."""
        with _lock:
            _running.setdefault(self.run, []).append(self)

    def end(self, _: object = None) -> None:
        """Note that it has ended. A callback of its future."""
        with _lock:
            others = _running[self.run]
            others.remove(self)
            waiting = [] if others else _waiting.pop(self.run, [])
            if not others:
                del _running[self.run]
        for notify in waiting:
            notify()


def still_running(run: str) -> tuple[str, ...]:
    """Return the names of a run's functions that have not ended in this process, though their drive may have."""
    if run not in _running:
        return ()
    with _lock:
        found = _running.get(run, ())
        return tuple(each.name for each in found if each.loop is None or not each.loop.is_closed())


def when_ended(run: str, notify: Callable[[], None]) -> None:
    """Call ``notify`` once no function of the run runs any more, in any thread; at once if none does."""
    with _lock:
        if run in _running:
            _waiting.setdefault(run, []).append(notify)
            return
    notify()


def left_behind(run: str, task: asyncio.Task[Any]) -> None:
    """Let a task that was cancelled and continues count as running until it has ended."""
    running = Running(run, task.get_name(), task.get_loop())
    running.begin()
    task.add_done_callback(running.end)


async def cancel_and_wait(tasks: set[asyncio.Task[Any]], run: str) -> None:
    """Cancel a run's tasks and wait until they have ended, for a while: no step may hold its drive by not letting go.

    The run's claim is kept for those that continue.
    """
    for task in tasks:
        task.cancel()
    if tasks:
        try:
            done, still = await asyncio.wait(tasks, timeout=LEAVE)
        except asyncio.CancelledError:
            for task in tasks:
                if not task.done():
                    left_behind(run, task)
            raise
        for task in still:
            left_behind(run, task)
        # asyncio logs exceptions that are never retrieved, and what cancelled code raises does not matter.
        _ = [task.cancelled() or task.exception() for task in done]


async def in_thread(function: Callable[[], T], name: str) -> T:
    """Run a plain function in a thread, in a copy of the caller's context.

    A ``StopIteration`` of it is a ``RuntimeError`` with that cause, as it is of a coroutine. A step's time limit stands
    still until a thread is free.
    """
    context, step = contextvars.copy_context(), running_step.get()
    running = Running(step.host.run_id if step is not None else "", name)
    running.begin()
    wait = WaitForThread(step) if step is not None and step.timeout is not None else None
    call = function if wait is None else wait.before(function)
    try:
        future = THREADS.submit(context.run, _ended_visibly, call)
    except RuntimeError:  # The interpreter shuts down.
        running.end()
        raise
    future.add_done_callback(running.end)
    try:
        return await asyncio.wrap_future(future)
    finally:
        if wait is not None:
            wait.end()


class WaitForThread:
    """The wait for a free thread, which is no work of a step: ended once, when its function begins or is given up."""

    def __init__(self, step: StepOps) -> None:
        self._step: StepOps | None = step
        self._loop = asyncio.get_running_loop()
        step.count(waits=1, works=-1)

    def before(self, function: Callable[[], T]) -> Callable[[], T]:
        """Return what ends the wait, from a thread, and calls the function."""

        def call() -> T:
            with contextlib.suppress(RuntimeError):  # That loop has ended, and the step with it.
                self._loop.call_soon_threadsafe(self.end)
            return function()

        return call

    def end(self) -> None:
        """End the wait."""
        step, self._step = self._step, None
        if step is not None:
            step.count(waits=-1, works=1)


def _ended_visibly(function: Callable[[], T]) -> T:
    try:
        return function()
    except StopIteration as error:
        # No future of asyncio can hold one: what awaits it would wait without end.
        raise RuntimeError("plain function raised StopIteration") from error

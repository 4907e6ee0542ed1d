"""How functions of steps and calls run: async, or in threads, with retries, or another function in their place.

It knows what still runs in this process, by its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from checkpoints.limits import as_name
from checkpoints.records import JsonObject
from wfdash.workflow.authoring import Retry
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.step_ops import StepOps, running_step

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
        self.tool: str | None = None
        """Where it is a call of an agent's tool: the id that the model gave it, maybe empty."""
        self.began = 0.0
        """When what it measures began, by ``monotonic``."""

    @contextlib.contextmanager
    def underway(self) -> Iterator[None]:
        """Mark what is done inside of it."""
        token, self.began = _made_now.set(self), monotonic()
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

    def ms(self) -> float:
        """Return for how long it has been made, in milliseconds."""
        return round((monotonic() - self.began) * 1000, 3)

    def facts(self) -> JsonObject:
        """Return what the event of its end says."""
        return {"ms": self.ms()} if self.tool is None else {"ms": self.ms(), "call": self.tool}

    @staticmethod
    def is_of_tool(call: str) -> None:
        """Say that the recorded call whose code is running is one of an agent's tool, with the model's id of it."""
        if (made := _made_now.get()) is not None:
            made.tool = as_name(call)

    @staticmethod
    def made_by(step: object) -> RecordedCall | None:
        """Return the recorded call of this step whose code is running, None if there is none."""
        call = _made_now.get()
        return call if call is not None and call._step is step else None

    @staticmethod
    def refuse(step: object, what: str) -> None:
        """Raise ``InvalidCall`` if a recorded call of this step is being made, inside of which it would wait."""
        if call := RecordedCall.made_by(step):
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


# -- threads, and what still runs

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

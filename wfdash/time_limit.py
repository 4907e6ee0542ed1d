"""Calls of authors' code by jobs that have others to serve: no thread can be ended, so they leave one that hangs."""

from __future__ import annotations

import contextvars
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from django.db import connections

from wfdash.values.errors import message_of

T = TypeVar("T")


class TimeLimit:
    """Calls functions in threads of their own and waits ``seconds`` for each. For any thread.

    A call that has not returned by then continues to run; until it ends, no further one with its key begins.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._late: dict[tuple[str, str], threading.Thread] = {}
        """What did not return in time, by the group and the key of its call."""

    def call(self, group: str, key: str, function: Callable[[], T]) -> T:
        """Return what the function does. ``TimeoutError``, which says where it is, if that takes too long.

        While another call of its group has not returned it waits a tenth: many that hang would add up.
        """
        done: Future[T] = Future()
        context = contextvars.copy_context()
        for of, one in self._late.copy().items():
            if not one.is_alive():
                self._late.pop(of, None)
        if (before := self._late.get((group, key))) is not None:
            raise self._overdue(before, self.seconds)
        patience = self.seconds / 10 if any(of == group for of, _ in self._late.copy()) else self.seconds
        thread = threading.Thread(target=context.run, args=(self._run, function, done), daemon=True)
        thread.start()
        try:
            return done.result(patience)
        except TimeoutError:
            # The function's own error, or the end of our patience.
            if done.done():
                return done.result()
            self._late[group, key] = thread
            raise self._overdue(thread, patience) from None

    def _run(self, function: Callable[[], Any], done: Future[Any]) -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = function()
        except Exception as raised:
            error = raised
        except BaseException as raised:
            # Such as sys.exit(): it ends this call, not the process that waits for it.
            error = RuntimeError(f"The workflow's code ended with {type(raised).__name__}: {message_of(raised)}")
        try:
            connections.close_all()
        finally:
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

    def _overdue(self, thread: threading.Thread, seconds: float) -> TimeoutError:
        frame = sys._current_frames().get(thread.ident or 0)
        found = traceback.extract_stack(frame)[-1:] if frame is not None else []
        where = "".join(f" It is in {one.name} ({one.filename}:{one.lineno})." for one in found)
        return TimeoutError(f"The workflow's code did not return within {seconds:g} s.{where}")

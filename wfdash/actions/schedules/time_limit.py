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

T = TypeVar("T")


class TimeLimit:
    """Calls functions in threads of their own and waits ``seconds`` for each. For any thread.

    A call that has not returned by then continues to run; until it ends, no further one with its key begins.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._late: dict[str, threading.Thread] = {}

    def call(self, key: str, function: Callable[[], T]) -> T:
        """Return what the function does. ``TimeoutError``, which says where it is, if that takes too long."""
        done: Future[T] = Future()
        context = contextvars.copy_context()
        if (before := self._late.get(key)) is not None and before.is_alive():
            raise self._overdue(before)
        self._late.pop(key, None)
        thread = threading.Thread(target=context.run, args=(self._run, function, done), daemon=True)
        thread.start()
        try:
            return done.result(self.seconds)
        except TimeoutError:
            # The function's own error, or the end of our patience.
            if done.done():
                return done.result()
            self._late[key] = thread
            raise self._overdue(thread) from None

    def _run(self, function: Callable[[], Any], done: Future[Any]) -> None:
        try:
            result, error = function(), None
        except BaseException as raised:
            result, error = None, raised
        connections.close_all()
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def _overdue(self, thread: threading.Thread) -> TimeoutError:
        frame = sys._current_frames().get(thread.ident or 0)
        found = traceback.extract_stack(frame)[-1:] if frame is not None else []
        where = "".join(f" It is in {one.name} ({one.filename}:{one.lineno})." for one in found)
        return TimeoutError(f"The workflow's code did not return within {self.seconds:g} s.{where}")

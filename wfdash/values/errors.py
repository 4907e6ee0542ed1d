"""What is wrong with a value or a question, for every engine; and authors' exceptions as records.

Authors import the classes from ``wfdash.workflow.errors``.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType

from checkpoints.errors import ErrorWithFacts
from checkpoints.records import ErrorInfo


class WorkflowError(ErrorWithFacts):
    """Something about a workflow went wrong; see the subclass for the remedy."""


class InvalidCall(WorkflowError):
    """These arguments of ``run`` do not go together: the message names them."""


class NotStorable(WorkflowError):
    """The value would not come back the same: use a type that does. ``facts``: path."""


class WrongType(WorkflowError):
    """The value does not fit its declared type."""


# -- exceptions of authors' code as records: short enough to store, in characters that every database keeps

LONGEST_TEXT = 20_000
"""Characters of a message, and of a traceback."""


def message_of(error: BaseException) -> str:
    """Return an exception's message: cut, storable, and empty if ``str`` fails on it."""
    try:
        text = str(error)[:LONGEST_TEXT]
    except Exception:
        return ""
    return _storable(text)


def error_info(error: BaseException, step: str | None = None, *, since: TracebackType | None = None) -> ErrorInfo:
    """Return an exception as a record. ``since``: where its traceback begins, by default where it was caught."""
    lines = traceback.format_exception(type(error), error, since or error.__traceback__)
    text, half = "".join(lines), LONGEST_TEXT // 2
    if (left_out := len(text) - LONGEST_TEXT) > 0:
        # A traceback begins with where it came from, and ends with what it was.
        text = f"{text[:half]}\n... ({left_out} characters) ...\n{text[-half:]}"
    return ErrorInfo(type=type(error).__name__, message=message_of(error), step=step, traceback=_storable(text))


def _storable(text: str) -> str:
    """Return text in which half a character (a lone surrogate) is written as its escape."""
    return text.encode(errors="backslashreplace").decode()


# -- steps that have failed and are not tried again: engines report the exceptions, for those who watch

Watcher = Callable[[BaseException, str], None]
_watchers: list[Watcher] = []


def watch_failures(watcher: Watcher) -> Callable[[], None]:
    """Call ``watcher(error, step)`` with each, ``step`` empty where it is not known; the returned function ends it.

    It is called on the event loop that drives the run, and must neither wait nor raise.
    """
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)


def report_failure(error: BaseException, step: str = "") -> None:
    """Say that a step has failed and is not tried again."""
    for watcher in _watchers:
        watcher(error, step)

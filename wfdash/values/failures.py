"""Steps that have failed and are not tried again: engines report the exceptions, for those who watch."""

from __future__ import annotations

from collections.abc import Callable

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

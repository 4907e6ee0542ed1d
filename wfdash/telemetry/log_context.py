"""What a line of the log is about: the worker, the run, the step or the request in which it was written.

Imports nothing of the product: logging is set up before everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

Facts = Mapping[str, str]
ORDER = ("worker", "request", "path", "workflow", "run", "step")
"""The facts there are, in the order in which they are shown."""

_bound: ContextVar[Facts] = ContextVar("wfdash_log_facts", default={})  # noqa: B039 (it is never changed)
_sources: list[Callable[[], Facts]] = []


def bind(**facts: str) -> None:
    """Add facts to what the current task logs from now on, with the tasks and threads that it starts."""
    _bound.set({**_bound.get(), **facts})


@contextmanager
def about(**facts: str) -> Iterator[None]:
    """Add facts to what is logged inside of the block."""
    token = _bound.set({**_bound.get(), **facts})
    try:
        yield
    finally:
        _bound.reset(token)


def add_source(source: Callable[[], Facts]) -> None:
    """Ask for more facts at each line. ``source`` must be fast and must not fail."""
    if source not in _sources:
        _sources.append(source)


def current_facts() -> dict[str, str]:
    """Return what the current line is about, in ``ORDER``; what is not known is left out."""
    found = dict(_bound.get())
    for source in _sources:
        found |= source()
    return {name: found[name] for name in ORDER if found.get(name)}

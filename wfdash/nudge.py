"""Two bells, rung after a commit: *look at run R* (for workers) and *run R reached seq N* (for viewers).

A bell carries no truth: it may be lost, doubled or late, and everybody who listens also polls. Listeners are
called in the ringer's thread and must only hand over to their own loop (``call_soon_threadsafe``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, ParamSpec

P = ParamSpec("P")


@dataclass
class Bell(Generic[P]):
    """A list of listeners within this process."""

    _listeners: list[Callable[P, None]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def listen(self, listener: Callable[P, None]) -> Callable[[], None]:
        """Add a listener; the returned function removes it."""
        with self._lock:
            self._listeners.append(listener)

        def leave() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return leave

    def ring(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every listener. A listener whose loop has gone is skipped: a bell may be lost."""
        for listener in tuple(self._listeners):
            with contextlib.suppress(RuntimeError):
                listener(*args, **kwargs)


runs_due: Bell[[str]] = Bell()
"""``ring(run_id)``: a worker should look at this run now."""

runs_moved: Bell[[str, int]] = Bell()
"""``ring(run_id, seq)``: the run's events reach at least ``seq``."""

text_streamed: Bell[[str, str, str]] = Bell()
"""``ring(run_id, step, text)``: text made just now; never stored."""

inbox_moved: Bell[[str]] = Bell()
"""``ring(workflow)``: requests of this workflow were opened, answered or closed."""

notices_moved: Bell[[int]] = Bell()
"""``ring(user)``: this person (primary key) was told something, or has read it."""

requests_moved: Bell[[str, str, str]] = Bell()
"""``ring(workflow, part, request)``: something happened to it (``request``) or to who has it open (``people``)."""

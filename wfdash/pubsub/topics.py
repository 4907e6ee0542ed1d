"""The topics, each a list of subscribers within this process.

Subscribers are called in the publisher's thread and must only hand over to their own loop (``call_soon_threadsafe``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, ParamSpec

P = ParamSpec("P")


@dataclass
class Topic(Generic[P]):
    """What may be published, by its name in messages between processes."""

    name: str = ""
    _subscribers: list[Callable[P, None]] = field(default_factory=list)
    _forwarders: list[Callable[P, None]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def subscribe(self, subscriber: Callable[P, None]) -> Callable[[], None]:
        """Add a subscriber and return the function that removes it."""
        return self._add(subscriber, self._subscribers)

    def forward(self, forwarder: Callable[P, None]) -> Callable[[], None]:
        """Let other processes have what is published here; return the function that ends it."""
        return self._add(forwarder, self._forwarders)

    def publish(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every subscriber, here and in other processes; one whose loop is closed is skipped. Never waits."""
        self.deliver(*args, **kwargs)
        for forwarder in tuple(self._forwarders):
            forwarder(*args, **kwargs)

    def deliver(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call the subscribers of this process alone."""
        for subscriber in tuple(self._subscribers):
            with contextlib.suppress(RuntimeError):
                subscriber(*args, **kwargs)

    def _add(self, one: Callable[P, None], members: list[Callable[P, None]]) -> Callable[[], None]:
        with self._lock:
            members.append(one)

        def remove() -> None:
            with self._lock, contextlib.suppress(ValueError):
                members.remove(one)

        return remove


runs_due: Topic[[str]] = Topic("due")
"""``publish(run_id)``: a worker should check this run now."""

backlog_found: Topic[[]] = Topic("backlog")
"""``publish()``: a worker found more runs than it claims at once, so others that rest should look now, too."""

lead_ended: Topic[[str]] = Topic("lead")
"""``publish(code)``: of the workers that have loaded this none leads any more, so another should ask for it now."""

worker_begun: Topic[[str]] = Topic("worker")
"""``publish(name)``: a worker lives from now on, so others should look whether it still does."""

runs_changed: Topic[[str, int]] = Topic("run")
"""``publish(run_id, seq)``: the run's events reach at least ``seq``."""

text_streamed: Topic[[str, str, str, bool]] = Topic("text")
"""``publish(run_id, step, text, begin)``: streamed text, never stored; with ``begin`` it is the first of an attempt.
Published by ``streamed_text.add``.
"""

text_ended: Topic[[str, str]] = Topic("ended")
"""``publish(run_id, step)``: this step streams no more; ``""``: no step of the run does. Published by
``streamed_text.forget``.
"""

inbox_changed: Topic[[str]] = Topic("inbox")
"""``publish(workflow)``: requests of this workflow were opened, answered or closed."""

notifications_changed: Topic[[int]] = Topic("notified")
"""``publish(user)``: this person (primary key) got a notification, or has read one."""

requests_changed: Topic[[str, str, str]] = Topic("request")
"""``publish(workflow, part, request)``: the request changed (``request``), or who has it open did (``people``)."""

consultations_due: Topic[[str, str]] = Topic("consult")
"""``publish(workflow, version)``: a server asks what only a worker with this version can answer."""

consultations_ended: Topic[[str]] = Topic("consulted")
"""``publish(consultation)``: a worker has replied."""

rights_changed: Topic[[int | None]] = Topic("rights")
"""``publish(user)``: this person (primary key; None: anyone) may have signed out, or their rights changed."""

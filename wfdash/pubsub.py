"""In-process publish/subscribe: *check run R* (for workers) and *run R reached seq N* (for viewers), after a commit.

A message carries no data: it may be lost, duplicated or late, and every subscriber also polls. Subscribers are called
in the publisher's thread and must only hand over to their own loop (``call_soon_threadsafe``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Generic, NamedTuple, ParamSpec

P = ParamSpec("P")


@dataclass
class Topic(Generic[P]):
    """A list of subscribers within this process."""

    _subscribers: list[Callable[P, None]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def subscribe(self, subscriber: Callable[P, None]) -> Callable[[], None]:
        """Add a subscriber and return the function that removes it."""
        with self._lock:
            self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._subscribers.remove(subscriber)

        return unsubscribe

    def publish(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every subscriber; one whose loop is closed is skipped."""
        for subscriber in tuple(self._subscribers):
            with contextlib.suppress(RuntimeError):
                subscriber(*args, **kwargs)


runs_due: Topic[[str]] = Topic()
"""``publish(run_id)``: a worker should check this run now."""

runs_changed: Topic[[str, int]] = Topic()
"""``publish(run_id, seq)``: the run's events reach at least ``seq``."""

text_streamed: Topic[[str, str, str, bool]] = Topic()
"""``publish(run_id, step, text, begin)``: streamed text, never stored; with ``begin`` it is the first of an attempt.
Published by ``streamed_text.add``.
"""


class KeptText(NamedTuple):
    """What a step has streamed in its current attempt. ``cut``: the beginning is no longer kept."""

    text: str
    cut: bool = False


class StreamedText:
    """What the steps of this process have streamed so far, for viewers who connect later: the end of each text.

    Under ``lock`` no text is stored but not yet published.
    """

    def __init__(self, most: int = 16_000) -> None:
        self.lock = RLock()
        self._most = most
        self._texts: dict[str, dict[str, KeptText]] = {}

    def add(self, run: str, step: str, text: str) -> None:
        """Append the text and publish it to ``text_streamed``."""
        with self.lock:
            texts = self._texts.setdefault(run, {})
            begin = step not in texts
            kept, cut = texts.get(step, KeptText(""))
            whole = kept + text
            texts[step] = KeptText(whole[-self._most :], cut or len(whole) > self._most)
            text_streamed.publish(run, step, text, begin)

    def of(self, run: str) -> dict[str, KeptText]:
        """Return step -> its text so far."""
        with self.lock:
            return dict(self._texts.get(run, {}))

    def forget(self, run: str, step: str | None = None) -> None:
        """Drop the text of a step that has ended, or all of a run that is no longer run here."""
        with self.lock:
            if step is None:
                self._texts.pop(run, None)
            else:
                self._texts.get(run, {}).pop(step, None)


streamed_text = StreamedText()

inbox_changed: Topic[[str]] = Topic()
"""``publish(workflow)``: requests of this workflow were opened, answered or closed."""

notifications_changed: Topic[[int]] = Topic()
"""``publish(user)``: this person (primary key) got a notification, or has read one."""

requests_changed: Topic[[str, str, str]] = Topic()
"""``publish(workflow, part, request)``: the request changed (``request``), or who has it open did (``people``)."""

rights_changed: Topic[[int | None]] = Topic()
"""``publish(user)``: this person (primary key; None: anyone) may have signed out, or their rights changed."""

"""Bridges in-process pub/sub from any thread to the event loop, many updates at a time.

Publishing must cost the publisher next to nothing: a worker publishes after every commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from threading import Lock

from wfdash import pubsub
from wfdash.live.feeds.messages import TextPiece, joined

TEXT_LIMIT = 64_000
"""Characters of streamed text per run and step buffered for the loop; older ones are dropped."""


@dataclass
class PendingUpdates:
    """Updates published since the last delivery."""

    seqs: dict[str, int] = field(default_factory=dict)
    """Watched run -> highest seq."""
    texts: dict[tuple[str, str], TextPiece] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)
    """Every run that changed, watched or not, while lists or workflows are watched."""
    inboxes: set[str] = field(default_factory=set)
    requests: set[tuple[str, str]] = field(default_factory=set)
    """``(request:id | people:id, workflow)``."""
    notified: set[int] = field(default_factory=set)
    """People (primary keys) with new notifications."""


class PubSubBridge:
    """Subscribes until ``close``; ``deliver`` is called on the loop with the pending updates."""

    def __init__(
        self, watched: Container[str], *, lists: Callable[[], bool], deliver: Callable[[PendingUpdates], None]
    ) -> None:
        self._watched, self._lists, self._deliver = watched, lists, deliver
        self._post = PendingUpdates()
        self._knocked = False
        self._lock = Lock()
        self._loop = asyncio.get_running_loop()
        self._leave = [
            pubsub.runs_changed.subscribe(self.moved),
            pubsub.text_streamed.subscribe(self.streamed),
            pubsub.inbox_changed.subscribe(self.inbox_moved),
            pubsub.requests_changed.subscribe(self.request_moved),
            pubsub.notifications_changed.subscribe(self.person_notified),
        ]

    def close(self) -> None:
        """Stop listening."""
        for leave in self._leave:
            leave()

    def moved(self, run: str, seq: int) -> None:
        """Note that the run reaches at least ``seq``. For any thread."""
        watched, lists = run in self._watched, self._lists()
        if not watched and not lists:
            return
        with self._lock:
            if watched:
                self._post.seqs[run] = max(seq, self._post.seqs.get(run, 0))
            if lists:
                self._post.runs.add(run)
            self._knock()

    def streamed(self, run: str, step: str, text: str, begin: bool = False) -> None:
        """Buffer streamed text. For any thread."""
        if run in self._watched:
            piece = TextPiece(step=step, text=text, begin=begin)
            with self._lock:
                self._post.texts[run, step] = joined(self._post.texts.get((run, step)), piece, most=TEXT_LIMIT)
                self._knock()

    def inbox_moved(self, workflow: str) -> None:
        """Note that requests of this workflow were opened, answered or closed. For any thread."""
        if self._lists():
            with self._lock:
                self._post.inboxes.add(workflow)
                self._knock()

    def request_moved(self, workflow: str, part: str, request: str) -> None:
        """Note that this request changed, or who has it open. For any thread."""
        if self._lists():
            with self._lock:
                self._post.requests.add((f"{part}:{request}", workflow))
                self._knock()

    def person_notified(self, user: int) -> None:
        """Note that this person got a notification, or has read one. For any thread."""
        if self._lists():
            with self._lock:
                self._post.notified.add(user)
                self._knock()

    def _knock(self) -> None:
        if not self._knocked:
            self._loop.call_soon_threadsafe(self._empty)
            self._knocked = True

    def empty(self) -> None:
        """Deliver the pending updates now; on the loop."""
        self._empty()

    def _empty(self) -> None:
        with self._lock:
            post, self._post, self._knocked = self._post, PendingUpdates(), False
        self._deliver(post)

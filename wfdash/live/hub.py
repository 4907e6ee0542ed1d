"""The hub of a process: a feed per watched run, the lists, and the subscriptions that wake them.

The truth is in the Event rows, read by seq. A published update only says where to look, and a poll covers updates that
were lost. The hub works only while someone watches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any

from wfdash import pubsub
from wfdash.live.admissions import Admissions
from wfdash.live.database import DatabaseThreads, Head, read_heads
from wfdash.live.feeds.encoding import EventWriter, Render, render_nothing
from wfdash.live.feeds.feed import Feed, Watcher
from wfdash.live.feeds.workflow_feed import WorkflowFeed, WorkflowWatcher
from wfdash.live.limits import Limits
from wfdash.live.lists import ListUpdates, ListWatcher
from wfdash.live.pubsub_bridge import PendingUpdates, PubSubBridge

log = logging.getLogger(__name__)

TEXT_SECONDS = 0.05
"""Text that a process streams has reached the others after so long."""


class Hub:
    """Feeds of one process. Everything but publishing happens on the loop it was created on."""

    def __init__(
        self,
        *,
        render: Render = render_nothing,
        limits: Limits | None = None,
        admissions: Admissions | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.admissions = admissions or Admissions(self.limits.sockets_per_person)
        self.loop = asyncio.get_running_loop()
        self.reader = DatabaseThreads(self.limits.reader_threads)
        self.front = DatabaseThreads(1)
        """For reads that connected viewers wait for: they must not queue behind hundreds of new ones."""
        self.feeds: dict[str, Feed] = {}
        self.lists = ListUpdates(reader=self.front, limits=self.limits)
        self.write = EventWriter(render)
        self.past = DatabaseThreads(1)
        """For the events of workflows: who is far behind reads for seconds, and holds up no one else."""
        self.workflows = WorkflowFeed(
            front=self.front, reader=self.past, write=self.write.of_workflow, limits=self.limits
        )
        self._bridge: PubSubBridge | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def admit(self, person: Hashable) -> bool:
        """Count one more socket of this person; False if they have too many. ``dismiss`` uncounts it."""
        return self.admissions.admit(person)

    def dismiss(self, person: Hashable) -> None:
        """Count one socket less."""
        self.admissions.dismiss(person)

    async def watch_run(self, run: str, watcher: Watcher, *, after: int) -> tuple[Feed, int]:
        """Add a viewer with that cursor to the run's feed; return it and a seq that the run has certainly reached.

        What a feed has read already is not read again: it is notified of more, or polls every second.
        """
        feed = self.feeds.get(run)
        if feed is None:
            feed = self.feeds[run] = Feed(run, reader=self.front, write=self.write, limits=self.limits)
        feed.watchers.add(watcher)
        self._wake_up()
        if after <= feed.reached:
            return feed, feed.reached
        # After the feed has subscribed, or an update between this read and that moment would be lost.
        head = (await self.front.call(read_heads, [run])).get(run, Head(0))
        feed.reached = max(feed.reached, head.seq)
        feed.learn(head)
        return feed, feed.reached

    def begin_text(self, run: str, watcher: Watcher) -> None:
        """Show a viewer what the run's steps have streamed so far; later text follows it."""
        with pubsub.streamed_text.lock:
            if self._bridge is not None and run in self.feeds:
                feed = self.feeds[run]
                feed.watchers.discard(watcher)  # text on its way is included
                self._bridge.empty()
                feed.flush_text()
                feed.watchers.add(watcher)
                feed.begin_text(watcher)

    def leave_run(self, run: str, watcher: Watcher) -> None:
        """Remove a viewer; with the last one the feed is removed."""
        feed = self.feeds.get(run)
        if feed is not None:
            feed.watchers.discard(watcher)
            if not feed.watchers:
                feed.close()
                del self.feeds[run]
        self._maybe_sleep()

    async def watch_lists(self, watcher: ListWatcher) -> None:
        """Add a viewer of list pages; after the return every later change is sent."""
        first = not self.lists.watchers
        self.lists.watchers.add(watcher)
        self._wake_up()
        if first:
            await self.lists.begin()

    def leave_lists(self, watcher: ListWatcher) -> None:
        """Remove a viewer of list pages."""
        self.lists.watchers.discard(watcher)
        self._maybe_sleep()

    async def watch_workflows(self, watcher: WorkflowWatcher) -> None:
        """Add a stream of a workflow; after the return the mark is current, and it is woken when that moves."""
        self.workflows.watchers.add(watcher)
        self._wake_up()
        await self.workflows.look()
        self.workflows.notify()

    def leave_workflows(self, watcher: WorkflowWatcher) -> None:
        """Remove a stream of a workflow."""
        self.workflows.leave(watcher)
        self._maybe_sleep()

    async def close(self) -> None:
        """Unsubscribe, end the tasks and the threads. Sockets still open get nothing more."""
        self._sleep()
        await asyncio.to_thread(self.close_readers)

    def close_readers(self) -> None:
        """End the reader threads after their current reads."""
        self.reader.close()
        self.front.close()
        self.past.close()

    def _wake_up(self) -> None:
        if self._bridge is None:
            self._bridge = PubSubBridge(self.feeds, lists=self._collects, deliver=self._deliver)
            self._start(self.poll_forever())
            self._start(self.lists.serve())
            self._start(self.workflows.serve())

    def _collects(self) -> bool:
        """Return whether someone wants to hear of every run."""
        return bool(self.lists.watchers or self.workflows.watchers)

    def _maybe_sleep(self) -> None:
        if not self.feeds and not self.lists.watchers and not self.workflows.watchers:
            self._sleep()

    def _sleep(self) -> None:
        if self._bridge is not None:
            self._bridge.close()
            self._bridge = None
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _deliver(self, post: PendingUpdates) -> None:
        for (run, _), piece in post.texts.items():
            if run in self.feeds:
                self.feeds[run].stream(piece)
        for run, seq in post.seqs.items():
            if run in self.feeds:
                self.feeds[run].reach(seq)
        if post.runs:
            self.workflows.notify()
        if self.lists.watchers:
            self.lists.notify_at_once(post.requests)
            self.lists.notify_people(post.notified)
            self.lists.collect(runs=post.runs, inboxes=post.inboxes)

    async def poll_forever(self) -> None:
        while True:
            await asyncio.sleep(self.limits.poll_every)
            try:
                await self._poll()
            except Exception:
                log.exception("the poll for lost bells failed; the next is due in %s s", self.limits.poll_every)

    async def _poll(self) -> None:
        if self.feeds:
            heads = await self.front.call(read_heads, list(self.feeds))
            # Text that another process streamed before these events may still be on its way.
            await asyncio.sleep(TEXT_SECONDS)
            for run, head in heads.items():
                if run in self.feeds:
                    self.feeds[run].learn(head)
        self.workflows.notify()
        if self.lists.watchers:
            await self.lists.poll()


@dataclass
class _CurrentHub:
    """The process's hub and the renderer it is created with."""

    hub: Hub | None = None
    render: Render = render_nothing
    admissions: Admissions = field(default_factory=lambda: Admissions(Limits().sockets_per_person))


_process = _CurrentHub()


def use_renderer(render: Render) -> None:
    """Set the renderer of event rows. Called where the application is put together, before the first socket."""
    _process.render = render


def get_hub() -> Hub:
    """Return this process's hub, created on first use on the running loop (and again on a new loop)."""
    hub = _process.hub
    if hub is None or hub.loop is not asyncio.get_running_loop():
        if hub is not None:
            hub.close_readers()
        hub = _process.hub = Hub(render=_process.render, admissions=_process.admissions)
    return hub


def process_admissions() -> Admissions:
    """Return the count of this process's sockets and event streams; for any thread."""
    return _process.admissions


def count_sockets() -> int:
    """Return how many sockets and event streams are open in this process; for any thread."""
    return _process.admissions.total

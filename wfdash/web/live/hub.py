"""The hub of a process: a feed per watched run, the lists, and the subscriptions that wake them.

The truth is in the Event rows, read by seq. A published update only says where to look, and a poll covers updates that
were lost. The hub works only while someone watches.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Container, Coroutine, Hashable, Iterable
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any, Protocol

from django.contrib.auth.models import Group
from django.db.models.signals import m2m_changed, post_delete, post_save

from checkpoints.database.alias import on_commit
from checkpoints.events import topics_of
from checkpoints.models import Grant
from checkpoints.models.user_model import User
from wfdash import pubsub
from wfdash.web.live.database import (
    DatabaseThreads,
    Head,
    Limits,
    read_heads,
    read_newest,
    read_notified,
    read_workflows,
)
from wfdash.web.live.feeds import (
    EventWriter,
    Feed,
    Render,
    TextPiece,
    Watcher,
    WorkflowFeed,
    WorkflowWatcher,
    joined,
    render_nothing,
)

# Publishes changes of accounts and rights, so that open sockets check theirs at once and not only every minute.


def connect() -> None:
    """Connect the signal handlers, once."""
    post_save.connect(_user_saved, sender=User, dispatch_uid="wfdash.web.live.hub")
    for signal, sender in (
        (post_delete, User),
        (post_save, Grant),
        (post_delete, Grant),
        (post_delete, Group),
        (m2m_changed, User.groups.through),
    ):
        signal.connect(_rights_changed, sender=sender, dispatch_uid="wfdash.web.live.hub")


def _user_saved(sender: Any, instance: User, update_fields: Iterable[str] | None, **_: Any) -> None:
    if update_fields is None or set(update_fields) - {"last_login"}:
        _publish(instance.pk)


def _rights_changed(sender: Any, instance: Any, **_: Any) -> None:
    # A change of a group concerns anyone: its members are not looked up.
    _publish(instance.pk if isinstance(instance, User) else getattr(instance, "user_id", None))


def _publish(user: int | None) -> None:
    on_commit(lambda: pubsub.rights_changed.publish(user))


# Notifies list pages that something changed: which lists, of which workflows, and nothing else.

log = logging.getLogger(__name__)

EVENTS_PER_POLL = 200
"""How many of the newest events a poll reads. If all of them are new, there may be more: then everything changed."""

NOTICES = "notices"
Change = tuple[str, str]
"""``(runs | inbox | request:id | people:id, workflow)``; workflow ``*`` means any. ``(notices, user)``."""


class ListWatcher(Protocol):
    """A socket of a list page."""

    def notify(self, changes: set[Change]) -> None: ...


class ListUpdates:
    """Collects changes and sends them at most every ``lists_every`` seconds, the first at once."""

    def __init__(self, *, reader: DatabaseThreads, limits: Limits) -> None:
        self.watchers: set[ListWatcher] = set()
        self._reader, self._limits = reader, limits
        self._runs: set[str] = set()
        self._changes: set[Change] = set()
        self._seen: set[int] = set()
        self._known: set[str] = set()
        self._pending_change = asyncio.Event()

    def collect(self, *, runs: Iterable[str] = (), inboxes: Iterable[str] = ()) -> None:
        """Collect changes of runs, and of inboxes of workflows."""
        self._runs.update(runs)
        self._changes.update(("inbox", workflow) for workflow in inboxes)
        if self._runs or self._changes:
            self._pending_change.set()

    def notify_people(self, users: Iterable[int]) -> None:
        """Notify these people only that they have new notifications."""
        changes = {(NOTICES, str(user)) for user in users}
        for watcher in tuple(self.watchers) if changes else ():
            watcher.notify(changes)

    def notify_at_once(self, requests: Iterable[Change]) -> None:
        """Send what people did to requests at once: people do not do a thousand things a second.

        What happened to a request changed the inbox, too; who has one open did not.
        """
        changes = set(requests)
        changes |= {("inbox", workflow) for what, workflow in changes if what.startswith("request:")}
        for watcher in tuple(self.watchers) if changes else ():
            watcher.notify(changes)

    async def begin(self) -> None:
        """Treat everything stored now as seen."""
        self._seen = {row[0] for row in await self._reader.call(read_newest, EVENTS_PER_POLL)}
        self._known = {notice for notice, _ in await self._reader.call(read_notified, EVENTS_PER_POLL)}

    async def poll(self) -> None:
        """Collect changes whose update was lost: events among the newest that the last poll had not seen."""
        rows = await self._reader.call(read_newest, EVENTS_PER_POLL)
        seen, self._seen = self._seen, {row[0] for row in rows}
        fresh = [(workflow, kind) for number, workflow, kind in rows if number not in seen]
        self._changes.update((topic, workflow) for workflow, kind in fresh for topic in topics_of(kind))
        if len(fresh) == EVENTS_PER_POLL:
            self._changes |= {("runs", "*"), ("inbox", "*")}
        self.collect()
        newest, before = await self._reader.call(read_notified, EVENTS_PER_POLL), self._known
        self._known = {notice for notice, _ in newest}
        self.notify_people(user for notice, user in newest if notice not in before)

    async def serve(self) -> None:
        """Notify the watchers until cancelled."""
        while True:
            await self._pending_change.wait()
            self._pending_change.clear()
            try:
                await self._notify()
            except Exception:
                log.exception("the lists' changes could not be read")
            await asyncio.sleep(self._limits.lists_every)

    async def _notify(self) -> None:
        runs, self._runs = self._runs, set()
        changes, self._changes = self._changes, set()
        if runs:
            changes |= {("runs", workflow) for workflow in await self._reader.call(read_workflows, runs)}
        for watcher in tuple(self.watchers):
            watcher.notify(changes)


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


class Admissions:
    """Counts connections by person, at most so many each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[Hashable] = Counter()
        self._lock = RLock()  # a finalizer may run while it is held

    def admit(self, person: Hashable) -> bool:
        """Count one more of this person; False if they have too many. ``dismiss`` uncounts it."""
        with self._lock:
            if self._open[person] >= self._most:
                return False
            self._open[person] += 1
            return True

    def dismiss(self, person: Hashable) -> None:
        """Count one less."""
        with self._lock:
            self._open[person] -= 1
            self._open += Counter()  # drops those at zero

    @property
    def total(self) -> int:
        """Return how many are open."""
        with self._lock:
            return self._open.total()


# Bridges in-process pub/sub from any thread to the event loop, many updates at a time.

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


@dataclass
class _CurrentHub:
    """The process's hub and the renderer it is created with."""

    hub: Hub | None = None
    render: Render = render_nothing
    admissions: Admissions = field(default_factory=lambda: Admissions(Limits().sockets_per_person))


_process = _CurrentHub()

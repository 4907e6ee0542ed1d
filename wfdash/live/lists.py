"""Notifies list pages that something changed: which lists, of which workflows, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from checkpoints.events import topics_of
from wfdash.live.database import DatabaseThreads, read_newest, read_notified, read_workflows
from wfdash.live.limits import Limits

log = logging.getLogger(__name__)

NEWEST = 200
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
        self._seen = {row[0] for row in await self._reader.call(read_newest, NEWEST)}
        self._known = {notice for notice, _ in await self._reader.call(read_notified, NEWEST)}

    async def poll(self) -> None:
        """Collect changes whose update was lost: events among the newest that the last poll had not seen."""
        rows = await self._reader.call(read_newest, NEWEST)
        seen, self._seen = self._seen, {row[0] for row in rows}
        fresh = [(workflow, kind) for number, workflow, kind in rows if number not in seen]
        self._changes.update((topic, workflow) for workflow, kind in fresh for topic in topics_of(kind))
        if len(fresh) == NEWEST:
            self._changes |= {("runs", "*"), ("inbox", "*")}
        self.collect()
        newest, before = await self._reader.call(read_notified, NEWEST), self._known
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

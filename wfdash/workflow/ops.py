"""What one running activation has asked, called and slept for, and which of its tasks wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from checkpoints.records import Json, Request
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.graph import Node
from wfdash.workflow.replay import CLOSED, Replay
from wfdash.workflow.ticks import Idled, OpIssued, Tick

LEAVE = 2.0
"""Seconds that cancelled code may take to let go; what has not by then is left to itself."""
SETTLE = 0.05
"""Seconds without news after which a step that asks in child tasks counts as waiting: its main task's own
doings cannot be seen."""


class Host(Protocol):
    """What an activation needs of the loop that drives it."""

    run_id: str
    park_after: float

    def post(self, tick: Tick) -> None:
        """Hand in what happened."""

    def ring(self) -> None:
        """Have another look at who can do nothing but wait."""

    def now(self) -> datetime:
        """The storage's clock."""

    def event(self, act: str, kind: str, data: dict[str, Json]) -> None:
        """Show an event soon. From any thread."""

    def stream(self, step: str, text: str) -> None:
        """Show text at once. From any thread."""

    def wake_at(self, when: datetime) -> None:
        """Look at the clock then."""


class Ops:
    """The operations of one run of one activation's function."""

    def __init__(self, host: Host, node: Node, act: str, journal: list[dict[str, Any]]) -> None:
        self.host = host
        self.node = node
        self.act = act
        self.called = node.name
        self.replay = Replay(node.name, journal)
        self._main: asyncio.Task[Any] | None = None
        self.timeout: asyncio.Timeout | None = None
        self.calling = 0
        self.calling_once = 0
        self.logged = 0
        """Records its function has logged so far."""
        self.errors: dict[int, Exception] = {}
        """What its calls raised."""
        self._closed = False
        self._left = 0.0
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._waiting: dict[int, asyncio.Task[Any] | None] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last = asyncio.get_running_loop().time()

    def issue(self, entry: dict[str, Any], request: Callable[[int], Request] | None = None, save: bool = False) -> int:
        """Take the next operation: the recorded one, or a new record. Return its index in the journal."""
        if not self.node.is_async:
            raise InvalidCall(f"step {self.node.name!r} is a plain function: make it 'async def' to {entry['k']}")
        if self._closed:
            raise InvalidCall(f"step {self.node.name!r} has ended: a task it left behind cannot {entry['k']}")
        known, lane = self.replay.match(entry["k"], entry["name"])
        if known is not None:
            return known
        made = request(len(self.replay.entries)) if request is not None else None
        if made is not None:
            entry["request"] = made.key
        index = self.replay.add(entry, lane)
        now = self.host.now()
        self.host.post(OpIssued(at=now, act=self.act, entry=entry, request=made, save=save))
        return index

    @property
    def main(self) -> asyncio.Task[Any] | None:
        """The task that runs the step's function."""
        return self._main

    def follow(self, main: asyncio.Task[Any]) -> None:
        """Say which task that is."""
        self._main = main
        self.replay.follow(main)

    def entry(self, index: int) -> dict[str, Any]:
        """Return the journal entry as it is now."""
        return self.replay.entries[index]

    async def wait(self, index: int, *, people: bool) -> dict[str, Any]:
        """Wait for the entry's result. ``people``: it may take days, the step may be parked meanwhile."""
        if CLOSED & self.entry(index).keys():
            return self.entry(index)
        if self._closed:
            raise asyncio.CancelledError(f"step {self.node.name!r} has ended")
        future = self._futures.setdefault(index, asyncio.get_running_loop().create_future())
        if people:
            self._block(index)
        try:
            await asyncio.shield(future)
        finally:
            self._unblock(index)
        return self.entry(index)

    def _block(self, index: int) -> None:
        task = asyncio.current_task()
        self._waiting[index] = task
        if task is not None:
            self._tasks.add(task)
        self._news()
        if self.timeout is not None and len(self._waiting) == 1:
            self._left = (self.timeout.when() or self._last) - self._last
            self.timeout.reschedule(None)
        if self.idle_at() == 0.0:
            self.host.post(Idled(at=self.host.now(), acts={self.act: self.waits}))
        else:
            self.host.ring()

    def _unblock(self, index: int) -> None:
        if index in self._waiting:
            self._waiting.pop(index)
            self._news()
            if self.timeout is not None and not self._waiting and not self.timeout.expired():
                self.timeout.reschedule(self._last + self._left)

    def _news(self) -> None:
        self._last = asyncio.get_running_loop().time()

    def resolve(self, index: int, entry: dict[str, Any]) -> None:
        """Let the code that waits for this entry go on."""
        self.replay.entries[index] = entry
        self._unblock(index)
        future = self._futures.setdefault(index, asyncio.get_running_loop().create_future())
        if not future.done():
            future.set_result(None)

    def reopen(self, index: int) -> None:
        """Make the entry one that has to be waited for again."""
        self._futures.pop(index, None)

    @property
    def waits(self) -> tuple[int, ...]:
        """The journal entries that are waited for."""
        return tuple(self._waiting)

    def idle_at(self) -> float | None:
        """Return when it can do nothing but wait: 0.0 now, a loop time, None while it works."""
        if self.calling or not self._waiting:
            return None
        waiting = set(self._waiting.values())
        if any(task not in waiting and not task.done() for task in self._tasks if task is not self.main):
            return None
        return 0.0 if self.main in waiting else self._last + SETTLE

    async def close(self) -> None:
        """Let go of child tasks that the step's function left behind."""
        await let_go(self.cut())

    def cut(self) -> set[asyncio.Task[Any]]:
        """Let nothing more be recorded; return the child tasks that are left."""
        self._closed = True
        return {task for task in self._tasks if task is not self.main and not task.done()}


async def let_go(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait until they have ended, for a while: no step may hold its run by not letting go."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=LEAVE)
        # Whatever they raise on the way out concerns nobody, and asyncio would complain if nobody looked.
        _ = [task.cancelled() or task.exception() for task in done]

"""Watches the event loop that steps run on: says which of them blocks it, while it does and how long it did."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from checkpoints.claims.renewal import close_loop
from checkpoints.events import EventKind
from checkpoints.ids import RunId
from checkpoints.records import Commit, Json
from wfdash import pubsub
from wfdash.workflow.runtime.step.blocking import BlockingStep, find_blocking_step

log = logging.getLogger(__name__)

LIMIT = 1.0
"""Seconds for which a loop may be blocked before it is reported."""
LOOK = 0.5
"""Seconds between two looks, and between two signs of life, while runs are driven."""
MOST = 5
"""Times that a run's events tell of the same step; the log tells of all."""
PATIENCE = 5.0
"""Seconds that writing an event may take."""
REMEDY = "make it a plain def, or use ctx.call or asyncio.to_thread"


class EventSink(Protocol):
    """What events are written to."""

    async def commit(self, commit: Commit) -> int:
        """Write it; return the run's last seq."""


class Watchdog:
    """A thread that watches one event loop while runs are driven there. ``start`` it and call ``watch`` on that loop;
    ``close`` it from any thread.

    Blocking is slow but harmless: nothing is stopped, no claim is touched. A process that was suspended as a whole,
    stopped or asleep, is not a step's fault and not reported.
    """

    def __init__(self, storage: EventSink, driving: Callable[[], int], *, limit: float = LIMIT) -> None:
        """``driving()`` says how many runs are being driven: without any it rests."""
        self._storage = storage
        self._driving = driving
        self._limit = limit
        self._turned = time.monotonic()
        self._ended = threading.Event()
        self._watching = threading.Event()
        self._reported: Counter[tuple[str, str]] = Counter()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="wfdash-watchdog", daemon=True)
        self._thread.start()

    def watch(self) -> None:
        """Watch from now on, until no run is driven any more."""
        if not self._watching.is_set():
            self._turned = time.monotonic()
            self._loop.call_later(LOOK, self._turn)
            self._watching.set()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._watching.set()
        if self._thread is not None:
            self._thread.join()

    def _turn(self) -> None:
        """Record the loop's heartbeat, as long as runs are driven."""
        self._turned = time.monotonic()
        if self._ended.is_set():
            return
        if self._driving():
            self._loop.call_later(LOOK, self._turn)
        else:
            self._watching.clear()

    def _watch(self) -> None:
        with asyncio.Runner() as runner:
            looked = time.monotonic()
            while not self._ended.wait(LOOK):
                if not self._watching.is_set():
                    self._watching.wait()
                    looked = time.monotonic()
                    continue
                # A thread that was kept from looking for as long tells nothing about the loop.
                if time.monotonic() - looked < self._limit and time.monotonic() - self._turned > self._limit + LOOK:
                    self._report_safely(runner)
                looked = time.monotonic()
            runner.run(close_loop(self._storage))

    def _report_safely(self, runner: asyncio.Runner) -> None:
        """Report, and keep watching if a stack cannot be read."""
        try:
            self._report_block(runner)
        except Exception:
            log.exception("Could not tell what blocks the event loop of this worker")

    def _report_block(self, runner: asyncio.Runner) -> None:
        since = self._turned
        busy = find_blocking_step(sys._current_frames()[self._watched])
        if self._turned != since:
            return
        self._say(runner, busy, EventKind.STEP_BLOCKING, time.monotonic() - since)
        while self._turned == since and not self._ended.wait(LOOK / 4):
            continue
        if self._turned != since:
            self._say(runner, replace(busy, stack=""), EventKind.STEP_BLOCKED, self._turned - since)

    def _say(self, runner: asyncio.Runner, busy: BlockingStep, kind: EventKind, seconds: float) -> None:
        what = f"Step {busy.step} of run {busy.run}" if busy.run else "Something outside of any step"
        verb = "blocks the event loop of this worker, for" if kind == EventKind.STEP_BLOCKING else "blocked it for"
        log.warning("%s %s %.1f s: %s (%s); %s", what, verb, seconds, busy.function, busy.where, REMEDY)
        if busy.stack:
            log.warning("It is here:\n%s", busy.stack.rstrip())
        self._reported[busy.run, kind + busy.step] += 1
        if busy.run and self._reported[busy.run, kind + busy.step] <= MOST:
            try:
                runner.run(self._note(busy, kind, seconds))
            except Exception as error:
                log.warning("Could not note that as an event: %s", error)

    async def _note(self, busy: BlockingStep, kind: EventKind, seconds: float) -> None:
        facts: dict[str, Json] = {"activation": busy.activation, "function": busy.function, "where": busy.where}
        facts["seconds"] = round(seconds, 1)
        facts |= {"item": busy.item} if busy.item is not None else {}
        facts |= {"stack": busy.stack} if busy.stack else {}
        event = kind.draft(busy.step, **facts)
        # Without a claim: it is true even if another worker has the run by now, or it has ended.
        async with asyncio.timeout(PATIENCE):
            seq = await self._storage.commit(Commit(run=RunId(busy.run), events=(event,)))
        pubsub.runs_changed.publish(busy.run, seq)

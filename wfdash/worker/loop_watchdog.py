"""Watches the event loop that steps run on: says which of them blocks it, while it does and how long it did.

A step that stops the loop of a second process as well would stop every process that takes its run: it is put aside.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from checkpoints.claims import close_loop
from checkpoints.events import EventKind
from checkpoints.ids import RunId
from checkpoints.models import Event
from checkpoints.records import Claim, Commit, ErrorInfo, JsonObject, Phase, Standing
from wfdash import pubsub
from wfdash.worker.db_thread import in_thread
from wfdash.workflow.runtime.watching import BlockingStep, find_blocking_step

log = logging.getLogger(__name__)

BLOCKED_SECONDS = 1.0
"""Seconds for which a loop may be blocked before it is reported."""
LOOK_GAP = 0.5
"""Seconds between two looks, and between two signs of life, while runs are driven."""
MAX_REPORTS_PER_STEP = 5
"""Times that a run's events tell of the same step."""
QUIET_SECONDS = 60.0
"""Seconds in which the log tells once of the same step, or of what is no step; then how often that was."""
WRITE_SECONDS = 5.0
"""Seconds that writing an event may take."""
REMEDY = "make it a plain def, or use ctx.call or asyncio.to_thread"
IDLE_REMEDY = "if the place differs each time, this machine has too little processor time for what runs on it"
LONG_SECONDS = 60.0
"""Seconds from which on a step keeps the process from all else, if its thread computed ``COMPUTED_SECONDS`` of them."""
COMPUTED_SECONDS = 20.0
"""Processor seconds: where the machine has none to give, no step is to blame."""
STUCK_SECONDS = 600.0
"""Seconds from which on a step that computes nothing does, too: it waits for what never comes."""
BLOCKS = (EventKind.STEP_BLOCKING, EventKind.STEP_BLOCKED)


class EventSink(Protocol):
    """What events are written to."""

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """Write it; return the run's last seq. ``ClaimLost``."""


class Watchdog:
    """A thread that watches one event loop while runs are driven there. ``start`` it and call ``watch`` on that loop;
    ``close`` it from any thread.

    Blocking is slow but harmless: nothing is stopped, no claim is touched. A process that was suspended as a whole,
    stopped or asleep, is not a step's fault and not reported. Only where a step has kept another process from all else
    until that ended, and keeps this one, its run is failed and the step is cancelled.
    """

    def __init__(
        self,
        storage: EventSink,
        driving: Callable[[], int],
        *,
        worker: str = "",
        claim_of: Callable[[RunId], Claim | None] = lambda run: None,
        limit: float = BLOCKED_SECONDS,
    ) -> None:
        """``driving()`` says how many runs are driven: without any it rests. ``claim_of(run)``: its claim here."""
        self._storage = storage
        self._driving = driving
        self._worker = worker
        self._claim_of = claim_of
        self._limit = limit
        self._turned = time.monotonic()
        self._ended = threading.Event()
        self._watching = threading.Event()
        self._reported: Counter[tuple[str, str]] = Counter()
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}
        """By run and step: when the log last had a line, and how often one was left out since."""
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
            self._loop.call_later(LOOK_GAP, self._turn)
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
            self._loop.call_later(LOOK_GAP, self._turn)
        else:
            self._watching.clear()

    def _watch(self) -> None:
        with asyncio.Runner() as runner:
            looked = time.monotonic()
            while not self._ended.wait(LOOK_GAP):
                if not self._watching.is_set():
                    self._watching.wait()
                    looked = time.monotonic()
                    continue
                # A thread that was kept from looking for as long tells nothing about the loop.
                if time.monotonic() - looked < self._limit and time.monotonic() - self._turned > self._limit + LOOK_GAP:
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
        since, computed = self._turned, self._computed()
        busy = find_blocking_step(sys._current_frames()[self._watched])
        if self._turned != since:
            return
        self._say(runner, busy, EventKind.STEP_BLOCKING, time.monotonic() - since)
        blocked, looked, judged = 0.0, time.monotonic(), False
        while self._turned == since and not self._ended.wait(LOOK_GAP / 4):
            # No more than one look: while this process is stopped, or this thread gets no time, no step is to blame.
            blocked += min(LOOK_GAP, time.monotonic() - looked)
            looked = time.monotonic()
            if not judged and (
                blocked > STUCK_SECONDS or (blocked > LONG_SECONDS and self._computed() - computed > COMPUTED_SECONDS)
            ):
                judged = True
                self._judge(runner, busy, since)
        if self._turned != since:
            self._say(runner, replace(busy, stack=""), EventKind.STEP_BLOCKED, self._turned - since, always=judged)

    def _computed(self) -> float:
        """Return the processor seconds of the loop's thread; 0 where the system does not say."""
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        return time.clock_gettime(clock_of(self._watched)) if clock_of is not None else 0.0

    def _judge(self, runner: asyncio.Runner, busy: BlockingStep, since: float) -> None:
        """Note that a step keeps this process from all else; if it did in another until that ended, put it aside."""
        now = find_blocking_step(sys._current_frames()[self._watched])
        if not busy.run or (now.run, now.activation) != (busy.run, busy.activation):
            return
        before = runner.run(in_thread(stopped_by, busy))
        runner.run(self._note(busy, EventKind.STEP_BLOCKING, time.monotonic() - since))
        claim = self._claim_of(RunId(busy.run))
        if claim is None or not before - {self._worker}:
            log.error("Step %s of run %s keeps this process from all else; restart it", busy.step, busy.run)
            return
        runner.run(self._put_aside(busy, claim))
        log.error("Run %s is failed: its step %s stopped this process and one before", busy.run, busy.step)
        if self._turned == since:
            # Its run is not this worker's any more, and nothing else can run here until it ends.
            kind = ctypes.py_object(asyncio.CancelledError)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._watched), kind)

    async def _put_aside(self, busy: BlockingStep, claim: Claim) -> None:
        words = (
            f"Step {busy.step} kept a worker process from everything else until the process was ended, and then a "
            f"second one: it is in {busy.function} ({busy.where}) and does not give way. "
            f"{REMEDY[0].upper()}{REMEDY[1:]}, or bound what it works on; then retry the run."
        )
        error = ErrorInfo(type="StepBlocksWorkers", message=words, step=busy.step, traceback=busy.stack)
        event = EventKind.RUN_FAILED.draft(error=error.model_dump(exclude={"traceback"}))
        standing = Standing(phase=Phase.FAILED, error=error)
        async with asyncio.timeout(WRITE_SECONDS):
            seq = await self._storage.commit(Commit(run=claim.run, events=(event,), standing=standing), claim=claim)
        pubsub.runs_changed.publish(busy.run, seq)

    def _say(
        self, runner: asyncio.Runner, busy: BlockingStep, kind: EventKind, seconds: float, *, always: bool = False
    ) -> None:
        """Tell the log, and the run's events: only the first times, or ``always``."""
        self._log(busy, kind, seconds, always=always)
        self._reported[busy.run, kind + busy.step] += 1
        if busy.run and (always or self._reported[busy.run, kind + busy.step] <= MAX_REPORTS_PER_STEP):
            try:
                runner.run(self._note(busy, kind, seconds))
            except Exception as error:
                log.warning("Could not note that as an event: %s", error)

    def _log(self, busy: BlockingStep, kind: EventKind, seconds: float, *, always: bool) -> None:
        """Log it; a step's end wherever its beginning was."""
        last, left_out = self._logged.get((busy.run, busy.step), (-QUIET_SECONDS, 0))
        ends, now = kind == EventKind.STEP_BLOCKED and not left_out, time.monotonic()
        if not ends and not always and now - last < QUIET_SECONDS:
            self._logged[busy.run, busy.step] = last, left_out + (kind == EventKind.STEP_BLOCKING)
            return
        if not ends:
            self._logged = {of: found for of, found in self._logged.items() if now - found[0] < QUIET_SECONDS}
            self._logged[busy.run, busy.step] = now, 0
        what = f"Step {busy.step} of run {busy.run}" if busy.run else "No step, but wfdash or a library,"
        verb = "blocks the event loop of this worker, for" if kind == EventKind.STEP_BLOCKING else "blocked it for"
        more = f" ({left_out} more times since the last line)" if left_out else ""
        remedy = REMEDY if busy.run else IDLE_REMEDY
        log.warning("%s %s %.1f s%s: %s (%s); %s", what, verb, seconds, more, busy.function, busy.where, remedy)
        if busy.stack:
            log.warning("It is here:\n%s", busy.stack.rstrip())

    async def _note(self, busy: BlockingStep, kind: EventKind, seconds: float) -> None:
        facts: JsonObject = {"activation": busy.activation, "function": busy.function, "where": busy.where}
        facts |= {"seconds": round(seconds, 1), "worker": self._worker}
        facts |= {"item": busy.item} if busy.item is not None else {}
        facts |= {"stack": busy.stack} if busy.stack else {}
        event = kind.draft(busy.step, **facts)
        # Without a claim: it is true even if another worker has the run by now, or it has ended.
        async with asyncio.timeout(WRITE_SECONDS):
            seq = await self._storage.commit(Commit(run=RunId(busy.run), events=(event,)))
        pubsub.runs_changed.publish(busy.run, seq)


def stopped_by(busy: BlockingStep) -> set[str]:
    """Return the workers that a step kept from all else for long, without an end that they have seen (one query)."""
    found: set[str] = set()
    for event in Event.objects.filter(run=busy.run, step=busy.step, kind__in=BLOCKS).order_by("seq"):
        worker = str(event.data.get("worker") or "")
        if event.data.get("activation") != busy.activation:
            continue
        if event.kind == EventKind.STEP_BLOCKED:
            found.discard(worker)
        elif event.data.get("seconds", 0) >= LONG_SECONDS:
            found.add(worker)
    return found

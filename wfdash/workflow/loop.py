"""Drives one run: collects ticks, reduces them, commits, starts what the commands say. Ends finished or parked.

There is no barrier: a step's successors start as soon as the commit that holds its end is durable; steps that
end while a commit is in flight share the next one. One coroutine commits, every activation is a task.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Checkpoint, ErrorInfo, EventDraft, Json, Phase, Reason, Standing
from checkpoints.storage import Recorder
from wfdash.contract import Failed, Finished, Outcome, Waiting
from wfdash.workflow.batch import Batch
from wfdash.workflow.book import Book
from wfdash.workflow.draft import item_of
from wfdash.workflow.graph import Graph
from wfdash.workflow.joins import gather_outputs
from wfdash.workflow.ops import let_go
from wfdash.workflow.packing import plain
from wfdash.workflow.perform import StepRun, describe_error
from wfdash.workflow.reduce import reduce
from wfdash.workflow.ticks import Answered, Idled, Moment, Perform, Resolve, Run, StepEnded, StepFailed, Tick, TimeCame
from wfdash.workflow.writes import state_seen

EVENT_DELAY = 0.1
"""Seconds that events of a step under way may wait for company before they are committed on their own."""
CALL_GRACE = 10.0
"""Seconds that ``once`` calls in flight may take to return when another step has failed the run."""


class Drive:
    """One run being driven in this process. Make it, ``go`` once, throw it away."""

    def __init__(self, graph: Graph, recorder: Recorder, book: Book, moment: Moment, park_after: float) -> None:
        self.graph = graph
        self.run_id: str = book.run
        self.park_after = park_after
        self._recorder = recorder
        self._book = book
        self._moment = moment
        self._inbox: deque[Tick] = deque()
        self._bell = asyncio.Event()
        self._batch = Batch()
        self._runs: dict[str, StepRun] = {}
        self._timers: list[datetime] = []
        self._listener: asyncio.Task[Mapping[RequestKey, Answer]] | None = None
        self._broken: BaseException | None = None
        self._events_due: float | None = None
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    # -- what activations use (ops.Host)

    def post(self, tick: Tick) -> None:
        """Hand in what happened."""
        self._inbox.append(tick)
        self._bell.set()

    def ring(self) -> None:
        """Have another look at who can do nothing but wait."""
        self._bell.set()

    def now(self) -> datetime:
        """The storage's clock."""
        return self._recorder.now()

    def event(self, act: str, kind: str, data: dict[str, Json]) -> None:
        """Commit an event soon. From any thread."""
        if threading.get_ident() == self._thread:
            # Not later: a step that ends now would be gone by then, and its last words with it.
            self._add_event(act, kind, data)
        else:
            self._loop.call_soon_threadsafe(self._add_event, act, kind, data)

    def _add_event(self, act: str, kind: str, data: dict[str, Json]) -> None:
        record = self._moment.position["live"].get(act)
        if record is None or self._closing:
            return
        item = item_of(self.graph.nodes[record["step"]].path, record["scope"]) if record["scope"] else None
        facts = {"activation": act, **data} | ({"item": item} if item is not None else {})
        self._batch.events.append(EventDraft(kind=kind, step=record["step"], data=facts))
        if self._events_due is None:
            self._events_due = self._loop.time() + EVENT_DELAY
            self._bell.set()

    def stream(self, step: str, text: str) -> None:
        """Show text at once. From any thread."""
        self._loop.call_soon_threadsafe(self._recorder.stream, step, text)

    def wake_at(self, when: datetime) -> None:
        """Look at the clock then."""
        heapq.heappush(self._timers, when)

    # -- the loop

    async def go(self, *first: Tick) -> Outcome:
        """Drive the run until it is finished, parked or failed; the last commit says which."""
        self._inbox.extend(first)
        self._watch_times()
        try:
            return await self._turn()
        finally:
            await self._stop()

    async def _turn(self) -> Outcome:
        while True:
            if self._broken is not None:
                raise self._broken
            self._take_ticks()
            outcome = await self._settle_outcome()
            if outcome is not None:
                return outcome
            if self._batch.reason is not None or self._events_ripe():
                await self._commit()
            self._perform()
            if not self._inbox:
                await self._rest()

    async def _settle_outcome(self) -> Outcome | None:
        if self._batch.failure is not None:
            return await self._fail(self._batch.failure.error)
        if self._batch.complete:
            return await self._finish()
        if not self._batch.acts and not self._inbox and self._is_idle() and not self._wakes_soon():
            return await self._park()
        return None

    def _take_ticks(self) -> None:
        # A label closes its batch: two labels are two checkpoints.
        while self._inbox and (self._closing or self._batch.label is None):
            self._take(self._inbox.popleft())

    def _take(self, tick: Tick) -> None:
        act = getattr(tick, "act", None)
        if act is not None and act not in self._moment.position["live"]:
            return None
        try:
            self._moment, commands = reduce(self.graph, self.run_id, self._moment, tick)
        except Exception as error:
            if not isinstance(tick, StepEnded):
                raise
            node = self.graph.nodes[self._moment.position["live"][tick.act]["step"]]
            return self._take(self._refused(tick, describe_error(error, node), error))
        if isinstance(tick, (StepEnded, StepFailed)):
            self._runs.pop(tick.act, None)
            self._watch_retry(tick)
        self._batch.take(commands)
        return None

    def _refused(self, tick: StepEnded, info: ErrorInfo, error: Exception) -> StepFailed:
        """A step whose writes cannot land has failed."""
        record = self._moment.position["live"][tick.act]
        retry = self.graph.nodes[record["step"]].retry
        delay = retry.delay_after(record.get("attempt", 1), error) if retry is not None else None
        attempts = retry.attempts if retry is not None else 1
        return StepFailed(at=tick.at, act=tick.act, error=info, delay=delay, attempts=attempts)

    def _watch_retry(self, tick: Tick) -> None:
        if isinstance(tick, StepFailed) and tick.delay is not None:
            self.wake_at(tick.at + timedelta(seconds=tick.delay))

    def _watch_times(self) -> None:
        for record in self._moment.position["live"].values():
            times = [record["retry_at"]] if "retry_at" in record else []
            times += [entry["until"] for entry in record["journal"] if entry["k"] == "sleep" and "done" not in entry]
            for time in times:
                self.wake_at(datetime.fromisoformat(time))

    def _perform(self) -> None:
        acts, self._batch.acts = self._batch.acts, []
        for command in acts:
            if command.act not in self._moment.position["live"]:
                continue
            if isinstance(command, (Resolve, Perform)) and command.act in self._runs:
                entry = self._moment.position["live"][command.act]["journal"][command.index]
                self._runs[command.act].ops.resolve(command.index, entry)
            else:
                self._start(command)

    def _start(self, command: Run | Resolve | Perform) -> None:
        record = self._moment.position["live"][command.act]
        if command.act in self._runs or "retry_at" in record or "queued" in record:
            return
        seen = state_seen(self._moment, command.act)
        self._runs[command.act] = StepRun(self.graph, self, command.act, record, seen)

    # -- waiting

    def _is_idle(self) -> bool:
        return self._idle_at() == 0.0

    def _idle_at(self) -> float | None:
        latest = 0.0
        for run in self._runs.values():
            when = run.ops.idle_at()
            if when is None:
                return None
            latest = max(latest, when)
        return 0.0 if latest <= self._loop.time() else latest

    def _wakes_soon(self) -> bool:
        return bool(self._timers) and (self._timers[0] - self.now()).total_seconds() <= self.park_after

    def _events_ripe(self) -> bool:
        return self._events_due is not None and self._loop.time() >= self._events_due

    async def _rest(self) -> None:
        """Wait for a tick, an answer, a time, or for events to ripen."""
        self._listen()
        delay = self._delay()
        if delay is None:
            await self._bell.wait()
        elif delay > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._bell.wait(), delay)
        self._bell.clear()
        if self._timers and self._timers[0] <= self.now():
            now = self.now()
            while self._timers and self._timers[0] <= now:
                heapq.heappop(self._timers)
            self._inbox.append(TimeCame(at=now))

    def _delay(self) -> float | None:
        if self._bell.is_set():
            return 0.0
        ends = [self._events_due] if self._events_due is not None else []
        idle = self._idle_at()
        if idle:
            ends.append(idle)
        delays = [end - self._loop.time() for end in ends]
        if self._timers:
            delays.append((self._timers[0] - self.now()).total_seconds())
        return min(delays) if delays else None

    def _listen(self) -> None:
        if self._listener is None and self._moment.requests:
            self._listener = asyncio.create_task(self._hear())
            self._listener.add_done_callback(self._heard)

    async def _hear(self) -> Mapping[RequestKey, Answer]:
        return await self._recorder.answers()

    def _heard(self, task: asyncio.Task[Mapping[RequestKey, Answer]]) -> None:
        if task.cancelled():
            return
        self._listener = None
        self._broken = task.exception()
        if self._broken is not None:
            self._bell.set()
            return
        self.post(Answered(at=self.now(), answers=task.result()))

    # -- commits and ends

    async def _commit(self, standing: Standing | None = None, reason: Reason | None = None) -> Checkpoint:
        batch, self._batch = self._batch, Batch()
        self._events_due = None
        self._batch.acts = batch.acts
        if standing is None and batch.reason is None:
            self._batch.closed = batch.closed
            return await self._book.write_events(self._recorder, batch)
        return await self._book.write(self._recorder, self._moment, batch, standing, reason)

    async def _park(self) -> Outcome:
        self._take(Idled(at=self.now(), acts={act: run.ops.waits for act, run in self._runs.items()}))
        until = self._timers[0] if self._timers else None
        requests = tuple(self._moment.requests.values())
        standing = self._standing(until)
        kind = "run.waiting" if requests else "run.sleeping"
        data: dict[str, Json] = {"until": until.isoformat()} if until is not None else {}
        self._batch.events.append(EventDraft(kind=kind, data=data))
        return Waiting(requests=requests, until=until, checkpoint=await self._commit(standing))

    def _standing(self, until: datetime | None) -> Standing:
        if self._moment.requests:
            return Standing(phase=Phase.WAITING, wake_at=until)
        waits = [a for a in self._moment.position["live"].values() if "retry_at" in a]
        if not waits:
            return Standing(phase=Phase.SLEEPING, wake_at=until)
        first = min(waits, key=lambda a: str(a["retry_at"]))
        return Standing(phase=Phase.RETRYING, wake_at=until, attempt=first["attempt"], attempts=first["attempts"])

    async def _finish(self) -> Outcome:
        position = self._moment.position
        output = plain(gather_outputs(position["outputs"], position["loose"]))
        if self._book.checkpoint is not None and self._book.checkpoint.reason is Reason.END:
            return Finished(output=output, checkpoint=self._book.checkpoint)
        self._batch.events.append(EventDraft(kind="run.completed", data={"output": output}))
        standing = Standing(phase=Phase.COMPLETED, output=output)
        return Finished(output=output, checkpoint=await self._commit(standing, Reason.END))

    async def _fail(self, error: ErrorInfo) -> Outcome:
        await self._await_once_calls()
        shown: Json = {"type": error.type, "message": error.message, "step": error.step}
        self._batch.events.append(EventDraft(kind="run.failed", step=error.step, data={"error": shown}))
        checkpoint = await self._commit(Standing(phase=Phase.FAILED, error=error), Reason.FAILURE)
        return Failed(error=error, checkpoint=checkpoint)

    async def _await_once_calls(self) -> None:
        """A ``once`` call in flight is let finish: cancelled, nobody would know whether it happened."""
        self._closing = True
        calling = {act for act, run in self._runs.items() if run.ops.calling_once}
        for act in self._runs.keys() - calling:
            self._runs[act].ops.cut()
            self._runs[act].task.cancel()
        end = self._loop.time() + CALL_GRACE
        while any(run.ops.calling_once for act, run in self._runs.items() if act in calling):
            self._take_ticks()
            await self._commit()
            self._perform_resolves()
            left = end - self._loop.time()
            if left <= 0:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._bell.wait(), left)
            self._bell.clear()
        self._take_ticks()

    def _perform_resolves(self) -> None:
        acts, self._batch.acts = self._batch.acts, []
        self._batch.acts = [a for a in acts if not isinstance(a, Run) and a.act in self._runs]
        self._perform()

    async def _stop(self) -> None:
        self._closing = True
        tasks: set[asyncio.Task[Any]] = {run.task for run in self._runs.values()}
        tasks = tasks.union(*(run.ops.cut() for run in self._runs.values()))
        if self._listener is not None:
            tasks.add(self._listener)
        await let_go(tasks)

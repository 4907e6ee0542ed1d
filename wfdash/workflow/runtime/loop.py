"""Drives one run: collects ticks, reduces them, commits, starts what the commands say. Ends finished or parked.

There is no barrier: a step's successors start as soon as the commit that holds its end is durable; steps that
end while a commit is in flight share the next one. One coroutine commits, every activation is a task.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Mapping
from datetime import datetime, timedelta
from typing import Any

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Checkpoint, ErrorInfo, Json, Phase, Reason, Standing
from checkpoints.storage import Draining, Recorder
from wfdash.contract import EVENT_DELAY, Failed, Finished, Outcome, Waiting
from wfdash.workflow.compiler.graph import Graph
from wfdash.workflow.reducer import ticks
from wfdash.workflow.reducer.in_flight import parked_standing
from wfdash.workflow.reducer.joins import gather_outputs
from wfdash.workflow.reducer.moment_builder import item_of
from wfdash.workflow.reducer.reduce import reduce
from wfdash.workflow.reducer.routing import plain
from wfdash.workflow.reducer.state_writes import state_seen
from wfdash.workflow.runtime.checkpoint_writer import CheckpointWriter
from wfdash.workflow.runtime.commit_batch import CommitBatch
from wfdash.workflow.runtime.recorders import confirming
from wfdash.workflow.runtime.step.step_ops import cancel_and_wait
from wfdash.workflow.runtime.step.step_run import StepRun, describe_error
from wfdash.workflow.runtime.timers import Timers
from wfdash.workflow.runtime.wakeup import Wakeup

CALL_GRACE = 10.0
"""Seconds that ``once`` calls in flight may take to return when another step has failed the run."""


class Drive:
    """One run being driven in this process. Make it, ``go`` once, throw it away."""

    def __init__(
        self, graph: Graph, recorder: Recorder, writer: CheckpointWriter, moment: ticks.Moment, park_after: float
    ) -> None:
        self.graph, self.park_after = graph, park_after
        self.run_id: str = writer.run
        self._recorder = recorder  # Asked once what it can: isinstance() of a protocol costs more than a step.
        self._confirm = confirming(recorder)
        self._drain = recorder if isinstance(recorder, Draining) else None
        if self._drain is not None:
            self._drain.drains = True
        self._writer = writer
        self._moment = moment
        self._inbox: deque[ticks.Tick] = deque()
        self._batch = CommitBatch()
        self._runs: dict[str, StepRun] = {}
        self._timers = Timers()
        self._listener: asyncio.Task[Mapping[RequestKey, Answer]] | None = None
        self._broken: BaseException | None = None
        self._events_due: float | None = None
        self._closing = False
        self.loop = asyncio.get_running_loop()
        self._wakeup = Wakeup(self.loop)
        self._thread = threading.get_ident()

    # -- what activations use (ops.Host)

    def post(self, tick: ticks.Tick) -> None:
        """Hand in what happened."""
        self._inbox.append(tick)
        self._wakeup.set()

    def tell(self, tick: ticks.Tick) -> None:
        """Hand in what a step says. From any thread."""
        if threading.get_ident() == self._thread:
            self.post(tick)
        else:
            self.loop.call_soon_threadsafe(self.post, tick)

    def recheck_idle(self) -> None:
        """Check again which activations are idle."""
        self._wakeup.set()

    def now(self) -> datetime:
        """The storage's clock."""
        return self._recorder.now()

    def event(self, activation: str, kind: EventKind, data: dict[str, Json]) -> None:
        """Commit an event soon. From any thread."""
        if threading.get_ident() == self._thread:
            # Not later: a step that ends now would be gone by then, and its final events lost.
            self._add_event(activation, kind, data)
        else:
            self.loop.call_soon_threadsafe(self._add_event, activation, kind, data)

    def _add_event(self, activation: str, kind: EventKind, data: dict[str, Json]) -> None:
        record = self._moment.position["live"].get(activation)
        if record is None or self._closing:
            return
        item = item_of(self.graph.nodes[record["step"]].path, record["scope"]) if record["scope"] else None
        facts = {"activation": activation, **data} | ({"item": item} if item is not None else {})
        self._batch.events.append(kind.draft(record["step"], **facts))
        if self._events_due is None:
            self._events_due = self.loop.time() + EVENT_DELAY
            self._wakeup.set()

    def stream(self, step: str, text: str) -> None:
        """Show text at once. From any thread."""
        self.loop.call_soon_threadsafe(self._recorder.stream, step, text)

    def wake_at(self, when: datetime) -> None:
        """Look at the clock then."""
        self._timers.add(when)

    async def confirm(self) -> None:
        """Return once it is sure that this process still has the run; never if it has not, until it is cancelled."""
        try:
            await self._confirm()
        except ClaimLost as error:
            self._broken = error
            self._wakeup.set()
            await self.loop.create_future()

    # -- the loop

    async def go(self, *first: ticks.Tick) -> Outcome:
        """Drive the run until it is finished, parked or failed; the last commit says which."""
        self._inbox.extend(first)
        self._timers.add_pending(self._moment.position)
        try:
            return await self._turn()
        finally:
            await self._stop()

    async def _turn(self) -> Outcome:
        while True:
            if self._broken is not None:
                raise self._broken
            self._take_ticks()
            ending = self._ending()
            if ending is not None:
                return await ending
            if self._batch.reason is not None or self._events_ripe():
                await self._commit()
            self._perform()
            if self._drain is not None and self._drain.draining and not self._inbox and self._is_idle():
                await self._drain.drained()
            elif not self._inbox:
                await self._rest()

    def _ending(self) -> Coroutine[Any, Any, Outcome] | None:
        """Return what ends the drive, where nothing is left to do."""
        if self._batch.failure is not None:
            return self._fail(self._batch.failure.error)
        if self._batch.complete:
            return self._finish()
        if not self._batch.follow_ups and not self._inbox and self._is_idle() and not self._wakes_soon():
            return self._park()
        return None

    def _take_ticks(self) -> None:
        # A label closes its batch: two labels are two checkpoints.
        while self._inbox and (self._closing or self._batch.label is None):
            self._take(self._inbox.popleft())

    def _take(self, tick: ticks.Tick) -> None:
        activation = getattr(tick, "activation", None)
        if activation is not None and activation not in self._moment.position["live"]:
            return None
        try:
            self._moment, commands = reduce(self.graph, self.run_id, self._moment, tick)
        except Exception as error:
            if not isinstance(tick, ticks.StepEnded):
                raise
            node = self.graph.nodes[self._moment.position["live"][tick.activation]["step"]]
            return self._take(self._refused(tick, describe_error(error, node), error))
        if isinstance(tick, (ticks.StepEnded, ticks.StepFailed)):
            self._runs.pop(tick.activation, None)
            self._watch_retry(tick)
        self._batch.take(commands)
        return None

    def _refused(self, tick: ticks.StepEnded, info: ErrorInfo, error: Exception) -> ticks.StepFailed:
        """A step whose writes cannot land has failed."""
        record = self._moment.position["live"][tick.activation]
        retry = self.graph.nodes[record["step"]].retry
        delay = retry.delay_after(record.get("attempt", 1), error) if retry is not None else None
        attempts = retry.attempts if retry is not None else 1
        return ticks.StepFailed(at=tick.at, activation=tick.activation, error=info, delay=delay, attempts=attempts)

    def _watch_retry(self, tick: ticks.Tick) -> None:
        if isinstance(tick, ticks.StepFailed) and tick.delay is not None:
            self.wake_at(tick.at + timedelta(seconds=tick.delay))

    def _perform(self) -> None:
        follow_ups, self._batch.follow_ups = self._batch.follow_ups, []
        for command in follow_ups:
            if command.activation not in self._moment.position["live"]:
                continue
            if isinstance(command, ticks.RunStep) and self._drain is not None and self._drain.draining:
                self._batch.follow_ups.append(command)
            elif isinstance(command, (ticks.ResolveEntry, ticks.MakeCall)) and command.activation in self._runs:
                entry = self._moment.position["live"][command.activation]["journal"][command.index]
                self._runs[command.activation].ops.resolve(command.index, entry)
            else:
                self._start(command)

    def _start(self, command: ticks.RunStep | ticks.ResolveEntry | ticks.MakeCall) -> None:
        record = self._moment.position["live"][command.activation]
        if command.activation in self._runs or "retry_at" in record or "queued" in record:
            return
        seen = state_seen(self._moment, command.activation)
        self._runs[command.activation] = StepRun(self.graph, self, command.activation, record, seen)

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
        return 0.0 if latest <= self.loop.time() else latest

    def _wakes_soon(self) -> bool:
        return bool(self._timers) and self._timers.seconds_left(self.now()) <= self.park_after

    def _events_ripe(self) -> bool:
        return self._events_due is not None and self.loop.time() >= self._events_due

    async def _rest(self) -> None:
        """Wait for a tick, an answer, a time, or for events to ripen."""
        self._listen()
        await self._wakeup.wait(self._delay())
        self._wakeup.clear()
        if self._timers and self._timers.clear_passed(now := self.now()):
            self._inbox.append(ticks.TimePassed(at=now))

    def _delay(self) -> float | None:
        ends = [self._events_due] if self._events_due is not None else []
        idle = self._idle_at()
        if idle:
            ends.append(idle)
        delays = [end - self.loop.time() for end in ends]
        if self._timers:
            delays.append(self._timers.seconds_left(self.now()))
        return min(delays) if delays else None

    def _listen(self) -> None:
        if self._listener is None and self._moment.requests:
            self._listener = asyncio.create_task(self._await_answers())
            self._listener.add_done_callback(self._on_answers)

    async def _await_answers(self) -> Mapping[RequestKey, Answer]:
        return await self._recorder.answers()

    def _on_answers(self, task: asyncio.Task[Mapping[RequestKey, Answer]]) -> None:
        if task.cancelled():
            return
        self._listener = None
        # Only an error is noted: a claim that was lost before stays lost, whatever is heard of answers.
        if (error := task.exception()) is not None:
            self._broken = self._broken or error
            self._wakeup.set()
            return
        self.post(ticks.AnswersArrived(at=self.now(), answers=task.result()))

    # -- commits and ends

    async def _commit(self, standing: Standing | None = None, reason: Reason | None = None) -> Checkpoint:
        batch, self._batch = self._batch, CommitBatch()
        self._events_due = None
        self._batch.follow_ups = batch.follow_ups
        if standing is None and batch.reason is None:
            self._batch.closed = batch.closed
            return await self._writer.write_events(self._recorder, batch)
        return await self._writer.write(self._recorder, self._moment, batch, standing, reason)

    async def _park(self) -> Outcome:
        waits = {activation: run.ops.waits for activation, run in self._runs.items()}
        self._take(ticks.StepsIdle(at=self.now(), activations=waits))
        until = self._timers.next
        requests = tuple(self._moment.requests.values())
        standing = parked_standing(self._moment.position, until, asked=bool(requests))
        kind = EventKind.RUN_WAITING if requests else EventKind.RUN_SLEEPING
        self._batch.events.append(kind.draft(**({"until": until.isoformat()} if until is not None else {})))
        return Waiting(requests=requests, until=until, checkpoint=await self._commit(standing))

    async def _finish(self) -> Outcome:
        position = self._moment.position
        output = plain(gather_outputs(position["outputs"], position["loose"]))
        if self._writer.checkpoint is not None and self._writer.checkpoint.reason is Reason.END:
            return Finished(output=output, checkpoint=self._writer.checkpoint)
        self._batch.events.append(EventKind.RUN_COMPLETED.draft(output=output))
        standing = Standing(phase=Phase.COMPLETED, output=output)
        return Finished(output=output, checkpoint=await self._commit(standing, Reason.END))

    async def _fail(self, error: ErrorInfo) -> Outcome:
        await self._await_once_calls()
        shown: Json = {"type": error.type, "message": error.message, "step": error.step}
        self._batch.events.append(EventKind.RUN_FAILED.draft(error.step, error=shown))
        checkpoint = await self._commit(Standing(phase=Phase.FAILED, error=error), Reason.FAILURE)
        return Failed(error=error, checkpoint=checkpoint)

    async def _await_once_calls(self) -> None:
        """Let ``once`` calls in flight finish: of a cancelled one it would be unknown whether it happened."""
        self._closing = True
        calling = {activation for activation, run in self._runs.items() if run.ops.calling_once}
        for activation in self._runs.keys() - calling:
            self._runs[activation].ops.cut()
            self._runs[activation].task.cancel()
        end = self.loop.time() + CALL_GRACE
        while any(run.ops.calling_once for activation, run in self._runs.items() if activation in calling):
            self._take_ticks()
            await self._commit()
            self._perform_resolves()
            if (left := end - self.loop.time()) <= 0:
                break
            await self._wakeup.wait(left)
            self._wakeup.clear()
        self._take_ticks()

    def _perform_resolves(self) -> None:
        follow_ups, self._batch.follow_ups = self._batch.follow_ups, []
        started = (one for one in follow_ups if not isinstance(one, ticks.RunStep))
        self._batch.follow_ups = [one for one in started if one.activation in self._runs]
        self._perform()

    async def _stop(self) -> None:
        self._closing = True
        tasks: set[asyncio.Task[Any]] = {run.task for run in self._runs.values()}
        tasks = tasks.union(*(run.ops.cut() for run in self._runs.values()))
        if self._listener is not None:
            tasks.add(self._listener)
        await cancel_and_wait(tasks, self.run_id)

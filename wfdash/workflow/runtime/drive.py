"""Drives one run: collects ticks, reduces them, commits, starts what the commands say. Ends finished or parked.

There is no barrier: a step's successors start as soon as the commit that holds its end is durable; steps that
end while a commit is in flight share the next one. One coroutine commits, every activation is a task.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_checkpoint_id
from checkpoints.manager import CheckpointManager
from checkpoints.records import (
    Answer,
    Checkpoint,
    Commit,
    Effect,
    ErrorInfo,
    EventDraft,
    Json,
    JsonObject,
    Phase,
    Reason,
    Request,
    Standing,
)
from checkpoints.storage import Draining, Recorder
from wfdash.contract import EVENT_DELAY, Failed, Finished, Outcome, Waiting
from wfdash.workflow.graph import Graph
from wfdash.workflow.reducer import ticks
from wfdash.workflow.reducer.moment import item_of, state_seen
from wfdash.workflow.reducer.reduce import gather_outputs, reduce
from wfdash.workflow.reducer.routing import plain
from wfdash.workflow.runtime.invoke import cancel_and_wait
from wfdash.workflow.runtime.recorders import ClaimingRecorder, confirming, in_turn
from wfdash.workflow.runtime.step_run import StepRun
from wfdash.workflow.stored import Position

CALL_GRACE = 10.0
"""Seconds that ``once`` calls in flight may take to return when another step has failed the run."""
NUMBERS = re.compile(r"-(\d+)\.(\d+)")
"""The numbers of activation and operation in a request's key: ``review-7.0``."""


class Drive:
    """One run being driven in this process. Make it, ``go`` once, throw it away.

    ``first``: the ticks it begins with. ``checkpoint``: the run's latest. ``manager`` leaves out checkpoints by its
    policy: those are no parents. ``claiming`` holds the run while it is driven.
    """

    def __init__(
        self,
        graph: Graph,
        recorder: Recorder,
        moment: ticks.Moment,
        *first: ticks.Tick,
        run: RunId,
        checkpoint: Checkpoint | None,
        park_after: float,
        manager: CheckpointManager | None,
        claiming: ClaimingRecorder | None,
    ) -> None:
        self.graph, self.park_after = graph, park_after
        self.run_id, self.claiming = run, claiming
        self._manager = manager
        self.now = recorder.now
        self._recorder = recorder  # Asked once what it can: isinstance() of a protocol costs more than a step.
        self._confirm = confirming(recorder)
        self.in_turn = partial(in_turn, recorder)
        self._drain = recorder if isinstance(recorder, Draining) else None
        if self._drain is not None:
            self._drain.drains = True
        self._checkpoint = checkpoint
        self._moment = self._written = moment
        self._inbox: deque[ticks.Tick] = deque(first)
        self._runs: dict[str, StepRun] = {}
        self._timers = Timers()
        self._timers.add_pending(moment.position)
        self._listener: asyncio.Task[Mapping[RequestKey, Answer]] | None = None
        self._broken: BaseException | None = None
        self._closing = False
        self.loop = asyncio.get_running_loop()
        self._wakeup = Wakeup(self.loop)
        self._thread = threading.get_ident()
        self._seen_idle = False
        # The next commit, and what is to be done or has come to pass once it is durable.
        self._events: list[EventDraft] = []
        self._events_due: float | None = None
        self._opened: dict[RequestKey, Request] = {}
        self._closed: list[RequestKey] = []
        self._effects: dict[str, Effect] = {}
        self._reason: Reason | None = None
        self._step: str | None = None
        self._label: str | None = None
        self._follow_ups: list[ticks.RunStep | ticks.ResolveEntry | ticks.MakeCall] = []
        self._failure: ErrorInfo | None = None
        self._complete = False

    # -- what activations use (step_ops.Host)

    def post(self, tick: ticks.Tick) -> None:
        """Hand in what happened."""
        self._inbox.append(tick)
        self._wakeup.set()

    def tell(self, tick: ticks.Tick) -> None:
        """Hand in what a step says. From any thread."""
        self._in_loop(self.post, tick)

    def _in_loop(self, do: Callable[..., None], *args: Any) -> None:
        if threading.get_ident() == self._thread:
            # Not later: a step that ends now would be gone by then, and its final events lost.
            do(*args)
        else:
            self.loop.call_soon_threadsafe(do, *args)

    def recheck_idle(self) -> None:
        """Check again which activations are idle."""
        self._wakeup.set()

    def event(self, activation: str, kind: EventKind, data: JsonObject) -> None:
        """Commit an event soon. From any thread."""
        self._in_loop(self._add_event, activation, kind, data)

    def _add_event(self, activation: str, kind: EventKind, data: JsonObject) -> None:
        record = self._moment.position["live"].get(activation)
        if record is None or self._closing:
            return
        item = item_of(self.graph.nodes[record["step"]].path, record["scope"]) if record["scope"] else None
        facts = {"activation": activation, **data} | ({"item": item} if item is not None else {})
        self._events.append(kind.draft(record["step"], **facts))
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

    async def go(self) -> Outcome:
        """Drive the run, under its claim, until it is finished, parked or failed; the last commit says which."""
        async with self.claiming.held() if self.claiming is not None else nullcontext():
            try:
                return await self._turn()
            finally:
                self._closing = True
                tasks: set[asyncio.Task[Any]] = {run.task for run in self._runs.values()}
                tasks = tasks.union(*(run.ops.cut() for run in self._runs.values()))
                if self._listener is not None:
                    tasks.add(self._listener)
                await cancel_and_wait(tasks, self.run_id)

    async def _turn(self) -> Outcome:
        while True:
            if self._broken is not None:
                raise self._broken
            self._take_ticks()
            ending = self._ending()
            if ending is not None:
                return await ending
            if self._reason is not None or (self._events_due is not None and self.loop.time() >= self._events_due):
                await self._commit()
            self._perform()
            if self._drain is not None and self._drain.draining and not self._inbox and self._idle_at() == 0.0:
                await self._drain.drained()
            elif not self._inbox:
                # Until a tick, an answer, a time, or events that are ripe.
                if self._listener is None and self._moment.requests:
                    self._listener = asyncio.create_task(self._recorder.answers())
                    self._listener.add_done_callback(self._on_answers)
                await self._wakeup.wait(self._delay())
                if self._timers and self._timers.clear_passed(now := self.now()):
                    self._inbox.append(ticks.TimePassed(at=now))

    def _ending(self) -> Coroutine[Any, Any, Outcome] | None:
        """Return what ends the drive, where nothing is left to do."""
        if self._failure is not None:
            return self._fail(self._failure)
        if self._complete:
            return self._finish()
        self._seen_idle = not self._follow_ups and not self._inbox and self._idle_at() == 0.0
        if not self._seen_idle:
            return None
        wakes_soon = self._timers and self._timers.seconds_left(self.now()) <= self.park_after
        return None if wakes_soon else self._park()

    def _take_ticks(self) -> None:
        # A label closes its batch: two labels are two checkpoints.
        while self._inbox and (self._closing or self._label is None):
            self._take(self._inbox.popleft())

    def _take(self, tick: ticks.Tick) -> None:
        activation = getattr(tick, "activation", None)
        if activation is not None and activation not in self._moment.position["live"]:
            return
        try:
            self._moment, commands = reduce(self.graph, self.run_id, self._moment, tick)
        except Exception as error:
            if not isinstance(tick, ticks.StepEnded):
                raise
            # A step whose writes cannot land has failed.
            self._take(self._runs[tick.activation].failure(error))
            return
        if isinstance(tick, (ticks.StepEnded, ticks.StepFailed)):
            self._runs.pop(tick.activation, None)
            if isinstance(tick, ticks.StepFailed) and tick.delay is not None:
                self.wake_at(tick.at + timedelta(seconds=tick.delay))
        self._collect(commands)

    def _collect(self, commands: list[ticks.Command]) -> None:
        """Add what a tick gave to the next commit, or to what follows it."""
        for command in commands:
            if type(command) is EventDraft:  # The most frequent. To ask whether something is a record costs a call.
                self._events.append(command)
                continue
            match command:
                case ticks.SaveCheckpoint():
                    self._reason, self._step = command.reason, command.step
                    self._label = command.label or self._label
                case ticks.RunStep() | ticks.ResolveEntry() | ticks.MakeCall():
                    self._follow_ups.append(command)
                case ticks.CloseRequest():
                    if self._opened.pop(command.key, None) is None:
                        self._closed.append(command.key)
                case ticks.CompleteRun():
                    self._complete = True
                case ticks.FailRun():
                    self._failure = self._failure or command.error
                case Request():
                    self._opened[command.key] = command
                case Effect():
                    self._effects[command.key] = command

    def _perform(self) -> None:
        """Do what follows a commit. No step begins in a run that is drained."""
        follow_ups, self._follow_ups = self._follow_ups, []
        for command in follow_ups:
            record = self._moment.position["live"].get(command.activation)
            running = self._runs.get(command.activation)
            if record is None:
                continue
            if isinstance(command, ticks.RunStep) and self._drain is not None and self._drain.draining:
                self._follow_ups.append(command)
            elif running is None:
                if "retry_at" not in record and "queued" not in record:
                    seen = state_seen(self._moment, command.activation)
                    self._runs[command.activation] = StepRun(self.graph, self, command.activation, record, seen)
            elif not isinstance(command, ticks.RunStep):
                running.ops.resolve(command.index, record["journal"][command.index])

    # -- waiting

    def _idle_at(self) -> float | None:
        """Return when no activation can do anything but wait: 0.0 now, a loop time, None while one works."""
        latest = 0.0
        for run in self._runs.values():
            when = run.ops.idle_at()
            if when is None:
                return None
            latest = max(latest, when)
        return 0.0 if latest <= self.loop.time() else latest

    def _delay(self) -> float | None:
        """Return the seconds until there is something to do; None if only a tick or an answer can bring that."""
        idle = self._idle_at()
        if idle == 0.0 and not self._seen_idle:
            return 0.0  # It became idle since the last look.
        due = min(self._events_due or math.inf, idle or math.inf)
        left = due if due == math.inf else due - self.loop.time()
        if self._timers:
            left = min(left, self._timers.seconds_left(self.now()))
        return None if left == math.inf else left

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

    async def _commit(self, standing: Standing | None = None, reason: Reason | None = None) -> None:
        """Commit what was collected, with a checkpoint unless it is nothing but events."""
        self._events_due, reason, moment, fresh = None, reason or self._reason, self._moment, None
        events, self._events = tuple(self._events), []
        if standing is None and reason is None:
            if events:
                await self._recorder.commit(Commit.trusted(run=self.run_id, events=events))
            return
        if reason is not None or (moment is not self._written and moment != self._written):
            fresh = self._next_checkpoint(reason or Reason.PAUSE)
        commit = Commit.trusted(
            run=self.run_id,
            checkpoint=fresh,
            events=events,
            opened=tuple(sorted(self._opened.values(), key=_started)),
            closed=tuple(self._closed),
            effects=tuple(self._effects.values()),
            standing=standing,
            frozen=True,
        )
        self._opened, self._closed, self._effects = {}, [], {}
        self._reason = self._step = self._label = None
        await self._recorder.commit(commit)
        if fresh is not None:
            self._checkpoint, self._written = fresh, moment

    def _next_checkpoint(self, reason: Reason) -> Checkpoint:
        parent = self._checkpoint
        saved = self._manager.last_saved(self.run_id) if self._manager is not None else None
        return Checkpoint.trusted(
            id=new_checkpoint_id(),
            run=self.run_id,
            workflow=WorkflowId(self.graph.name),
            n=parent.n + 1 if parent is not None else 1,
            parent=CheckpointId(saved or parent.id) if parent is not None else None,
            version=self.graph.version,
            step=self._step.removesuffix(">") if self._step is not None else None,
            reason=reason,
            label=self._label,
            created=self.now(),
            body={"state": self._moment.state, "position": self._moment.position},
            requests=tuple(self._moment.requests.values()),
            facts={},
        )

    @property
    def _latest(self) -> Checkpoint:
        if self._checkpoint is None:
            raise AssertionError("a run begins with a checkpoint")
        return self._checkpoint

    async def _park(self) -> Outcome:
        waits = {activation: run.ops.waits for activation, run in self._runs.items()}
        self._take(ticks.StepsIdle(at=self.now(), activations=waits))
        until = self._timers[0] if self._timers else None
        requests = tuple(self._moment.requests.values())
        standing = parked_standing(self._moment.position, until, asked=bool(requests))
        kind = EventKind.RUN_WAITING if requests else EventKind.RUN_SLEEPING
        self._events.append(kind.draft(**({"until": until.isoformat()} if until is not None else {})))
        await self._commit(standing)
        return Waiting(requests=requests, until=until, checkpoint=self._latest)

    async def _finish(self) -> Outcome:
        position = self._moment.position
        output = plain(gather_outputs(position["outputs"], position["loose"]))
        if self._checkpoint is None or self._checkpoint.reason is not Reason.END:
            self._events.append(EventKind.RUN_COMPLETED.draft(output=output))
            await self._commit(Standing(phase=Phase.COMPLETED, output=output), Reason.END)
        return Finished(output=output, checkpoint=self._latest)

    async def _fail(self, error: ErrorInfo) -> Outcome:
        await self._await_once_calls()
        shown: Json = {"type": error.type, "message": error.message, "step": error.step}
        self._events.append(EventKind.RUN_FAILED.draft(error.step, error=shown))
        await self._commit(Standing(phase=Phase.FAILED, error=error), Reason.FAILURE)
        return Failed(error=error, checkpoint=self._latest)

    async def _await_once_calls(self) -> None:
        """Let ``once`` calls in flight finish: of a cancelled one it would be unknown whether it happened."""
        self._closing = True
        calling = [run for run in self._runs.values() if run.ops.calling_once]
        for run in self._runs.values():
            if run not in calling:
                run.ops.cut()
                run.task.cancel()
        end = self.loop.time() + CALL_GRACE
        while any(run.ops.calling_once for run in calling):
            self._take_ticks()
            await self._commit()
            going = [one for one in self._follow_ups if one.activation in self._runs]
            self._follow_ups = [one for one in going if not isinstance(one, ticks.RunStep)]
            self._perform()
            if (left := end - self.loop.time()) <= 0:
                break
            await self._wakeup.wait(left)
        self._take_ticks()


def _started(request: Request) -> tuple[int, int]:
    """Return the numbers in a request's key, which order requests as their steps started: a map's as its items."""
    found = NUMBERS.findall(request.key)
    return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)


def parked_standing(position: Position, until: datetime | None, *, asked: bool) -> Standing:
    """Return the standing of a run that can do nothing before ``until``, or before people who were ``asked`` answer."""
    if asked:
        return Standing(phase=Phase.WAITING, wake_at=until)
    waits = [activation for activation in position["live"].values() if "retry_at" in activation]
    if not waits:
        return Standing(phase=Phase.SLEEPING, wake_at=until)
    first = min(waits, key=lambda activation: str(activation["retry_at"]))
    return Standing(phase=Phase.RETRYING, wake_at=until, attempt=first["attempt"], attempts=first["attempts"])


class Timers(list[datetime]):
    """Times to look at the clock, as a heap: the soonest is the first."""

    def add(self, when: datetime) -> None:
        """Set a timer."""
        heapq.heappush(self, when)

    def add_pending(self, position: Position) -> None:
        """Set a timer for each retry and sleep that a position waits for."""
        for record in position["live"].values():
            times = [record["retry_at"]] if "retry_at" in record else []
            times += [entry["until"] for entry in record["journal"] if entry["k"] == "sleep" and "done" not in entry]
            for time in times:
                self.add(datetime.fromisoformat(time))

    def seconds_left(self, now: datetime) -> float:
        """Return how long it is to the soonest one, less than 0 if that has passed. One must be set."""
        return (self[0] - now).total_seconds()

    def clear_passed(self, now: datetime) -> bool:
        """Remove those that have passed; say whether there were any."""
        before = len(self)
        while self and self[0] <= now:
            heapq.heappop(self)
        return len(self) < before


class Wakeup:
    """A flag that one coroutine of an event loop waits for. Setting it costs a fraction of ``asyncio.Event``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._is_set = False

    def set(self) -> None:
        """Set the flag. In the thread of the loop."""
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float | None) -> None:
        """Return once the flag is set, or after so many seconds, and take it back."""
        if not self._is_set and (seconds is None or seconds > 0):
            waiter = self._waiter = self._loop.create_future()
            timer = None if seconds is None else self._loop.call_later(seconds, self.set)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        self._is_set = False

"""Events of an engine that learns of steps while they run: each with its own time, a slow step visible at once.

An engine that commits when a step has ended would show a step of ten minutes only after ten minutes. Here the start of
a step that still runs after ``EVENT_DELAY`` is committed without waiting for its end; a faster one costs no commit of
its own, and steps that run at the same time share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from types import FrameType
from typing import Self

from checkpoints.events import EventKind
from checkpoints.ids import RunId
from checkpoints.records import Commit, EventDraft, Json, JsonObject
from checkpoints.storage import Recorder
from wfdash.contract import EVENT_DELAY
from wfdash.workflow.runtime.watching import attribute_steps_to


@dataclass(slots=True)
class _Noted:
    """An event that is not committed yet, and the loop's time until which it may wait for another commit."""

    draft: EventDraft
    due: float


@dataclass(frozen=True, slots=True)
class _Running:
    step: str
    facts: JsonObject
    at: datetime
    noted: _Noted


class RunningSteps:
    """The events of one run for the time of a drive, which takes place inside of ``async with``.

    Commit by ``commit``: it takes along what was noted, in the order of time. If events cannot be committed (the claim
    is lost, the disk is full), the block is cancelled and that error is raised at its end. Belongs to one event loop;
    its methods are called from the loop's thread.
    """

    libraries = frozenset({"asyncio", "langgraph", "langchain_core", "agent_framework"})
    """Packages that call steps."""

    def __init__(self, recorder: Recorder, run: RunId) -> None:
        self._recorder, self._run = recorder, run
        self.step_in: Callable[[Context, Sequence[FrameType]], tuple[str, str]] = lambda context, frames: ("", "")
        """Says which step code belongs to that blocks the event loop: see ``blocking.DrivenByLibrary``."""
        self._noted: list[_Noted] = []
        self._running: dict[str, _Running] = {}
        self._writing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None
        self._over = False

    @property
    def run_id(self) -> str:
        """The run."""
        return self._run

    @property
    def running(self) -> dict[str, str]:
        """The steps that have started and not ended: activation -> step."""
        return {activation: one.step for activation, one in self._running.items()}

    def started(self, activation: str, step: str, *, at: datetime | None = None, **facts: Json) -> None:
        """Note that a step has started, now or at that time. ``facts``: ``item`` and ``label`` of one of a map.

        Of an activation that is running already, nothing is noted.
        """
        if activation in self._running:
            return
        shown = {name: facts[name] for name in ("item",) if name in facts}
        began = at or self._recorder.now()
        noted = self.note(EventKind.STEP_STARTED.draft_of(step, {"activation": activation, **facts}, began))
        self._running[activation] = _Running(step, shown, began, noted)

    def ended(
        self,
        activation: str,
        kind: EventKind = EventKind.STEP_FINISHED,
        *,
        step: str = "",
        at: datetime | None = None,
        **facts: Json,
    ) -> None:
        """Note that a step has finished, or ended as ``kind`` says, now or at that time. ``facts``: the event's fields.

        ``step``: its name, if it was started in an earlier drive; how long it took is then not known.
        """
        one = self._running.pop(activation, None)
        ended = at or self._recorder.now()
        if one is not None:
            # The end is about to be committed by the engine: its start may wait for that.
            one.noted.due = asyncio.get_running_loop().time() + EVENT_DELAY
            step, facts = one.step, {**one.facts, **facts}
            if kind is EventKind.STEP_FINISHED:
                facts.setdefault("ms", max(0.0, round((ended - one.at).total_seconds() * 1000, 3)))
        self.note(kind.draft_of(step or None, {"activation": activation, **facts}, ended))

    def note(self, draft: EventDraft) -> _Noted:
        """Note any other event. It happened at its own time, or now."""
        if draft.at is None:
            draft = draft.model_copy(update={"at": self._recorder.now()})
        noted = _Noted(draft, asyncio.get_running_loop().time() + EVENT_DELAY)
        if not self._over:
            self._noted.append(noted)
            self._watch()
        return noted

    async def commit(self, commit: Commit) -> None:
        """Commit, with the events that were noted. What the recorder raises is raised; the events are kept then."""
        async with self._writing:
            if self._broken is not None:
                raise self._broken
            await self._write(commit)

    async def __aenter__(self) -> Self:
        """Begin the drive."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("RunningSteps is used in a task")
        self._task, self._cancelling = task, task.cancelling()
        attribute_steps_to(self)
        return self

    async def __aexit__(self, kind: object, error: object, _: object) -> None:
        """Stop committing. Events that were noted after the last commit are dropped: the drive has ended without."""
        self._end()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.wait([self._flushing])
        if self._broken is not None:
            if error is None:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)  # The block ended before it heard that it is cancelled.
            if self._task.uncancel() <= self._cancelling or not isinstance(error, asyncio.CancelledError):
                raise self._broken

    # -- committing what has waited long enough

    def _watch(self) -> None:
        if self._timer is None and self._flushing is None and self._noted and not self._over:
            due = min(one.due for one in self._noted)
            self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._is_due():
            self._flushing = asyncio.create_task(self._flush())
        else:
            self._watch()

    def _is_due(self) -> bool:
        now = asyncio.get_running_loop().time()
        return any(one.due <= now for one in self._noted)

    async def _flush(self) -> None:
        try:
            async with self._writing:
                if self._is_due() and not self._over:
                    await self._write(Commit(run=self._run))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._broken = error
            self._task.cancel()
        else:
            self._flushing = None
            self._watch()

    async def _write(self, commit: Commit) -> None:
        taken, now = len(self._noted), self._recorder.now()
        events = [(event.at or now, event) for event in (*(one.draft for one in self._noted), *commit.events)]
        events.sort(key=lambda pair: pair[0])
        timed = tuple(event if event.at else event.model_copy(update={"at": at}) for at, event in events)
        await self._recorder.commit(commit.model_copy(update={"events": timed}))
        del self._noted[:taken]
        if commit.standing is not None:
            self._end()

    def _end(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

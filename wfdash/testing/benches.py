"""The bench: the dashboard's actions, jobs and drive, called one after the other, and a clock that a test moves."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self
from unittest import mock

from django.conf import settings
from django.utils import timezone

from checkpoints.models import Reply
from checkpoints.records import CheckpointInfo
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.access.voters import vote_progress
from wfdash.actions.checkpoints.restore import fork_run, restore_run
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.runs.cancellation import cancel_run, pause_run, resume_run
from wfdash.actions.runs.follow_up import follow_up
from wfdash.actions.runs.lifecycle import retry_run, start_run
from wfdash.actions.runs.signals import send_signal
from wfdash.actions.schedules.manage import SchedulePlan, create_schedule
from wfdash.contract import Edits
from wfdash.engines.loading import load_engines
from wfdash.errors import Invalid
from wfdash.questions.durations import Duration, span_of
from wfdash.testing.answers import as_json, written_out
from wfdash.testing.clock import clock
from wfdash.testing.database import BenchStorage, new_folder, own_database
from wfdash.testing.drive import Crash, Driver
from wfdash.testing.moments import next_moment
from wfdash.testing.people import Cast
from wfdash.testing.records import BenchRequest, BenchRun, Call, VoteCount
from wfdash.testing.runs import all_runs, refresh
from wfdash.testing.thread import OrmThread
from wfdash.worker import sweeps
from wfdash.workflow import Workflow

_open: list[Bench] = []


class Bench:
    """A dashboard for one test. Every awaited action returns once no run can continue by itself.

    What a person may not do is refused with the error that pages and API give: ``NotAllowed``, ``NotFound``,
    ``Invalid``, ``AlreadyAnswered``, ``NoLongerOpen``, ``WrongState``. Where ``by`` is left out, the bench itself does
    it, as an operator who is no reviewer.
    """

    def __init__(self, workflows: tuple[Workflow, ...], cast: Cast) -> None:
        if not workflows:
            raise ValueError("bench() needs a workflow")
        self._workflows, self._cast = workflows, cast
        self._catalog = catalog_of(workflows)
        self._runs: dict[str, BenchRun] = {}
        self._closing = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        return self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unused = [crash.call for crash in self._driver.crashes] if error is None else []
        self.close()
        if unused:
            made = ", ".join(dict.fromkeys(call.name for call in self._driver.calls)) or "none"
            raise LookupError(f"crash_after({unused[0]!r}): no call of that name was recorded after it; calls: {made}")

    def open(self) -> Self:
        """Make database and people; ``async with`` does this. ``RuntimeError`` while another bench is open."""
        if _open:
            raise RuntimeError("Another bench is open: give one bench all workflows, bench(first, second)")
        with contextlib.ExitStack() as stack:
            folder = new_folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(mock.patch.object(clock, "moved", timedelta()))
            stack.enter_context(mock.patch.object(timezone, "now", clock.now))
            stack.enter_context(mock.patch.object(catalog, "load", return_value=self._catalog))
            self._thread = stack.enter_context(contextlib.closing(OrmThread()))
            stack.enter_context(self._thread.within(own_database(folder)))
            self._thread.wait(self._cast.make)
            self._storage = BenchStorage()
            stack.callback(self._storage.close)
            self._driver = stack.enter_context(contextlib.closing(Driver(self._storage)))
            _open.append(self)
            stack.callback(_open.remove, self)
            self._closing = stack.pop_all()
        return self

    def close(self) -> None:
        """Remove the database and give Django its own back; ``async with`` does this."""
        self._closing.close()

    @property
    def now(self) -> datetime:
        """Return the bench's time."""
        return clock.now()

    @property
    def calls(self) -> list[Call]:
        """Return every ``ctx.call`` that really happened, in order: replayed ones are not there."""
        return list(self._driver.calls)

    @property
    def runs(self) -> list[BenchRun]:
        """Return all runs, the oldest first: those of schedules, too."""
        return list(self._runs.values())

    # -- what people and programs do

    async def start(self, message: Any = None, *, by: str = "", workflow: Workflow | str = "") -> BenchRun:
        """Start a run and return it. ``workflow``: which, if the bench has several."""
        given, name = as_json(message), self._named(workflow)
        with saying_what():
            row = await self._thread.call(lambda: start_run(self._viewer(by), name, given))
        return await self._settled(row.pk)

    async def follow_up(self, run: BenchRun, message: Any, *, by: str = "") -> BenchRun:
        """Send a completed run its next message, and return the run that follows it."""
        given = as_json(message)
        with saying_what():
            row = await self._thread.call(lambda: follow_up(self._viewer(by), run.id, given))
        return await self._settled(row.pk)

    async def answer(
        self,
        target: BenchRun | BenchRequest,
        value: Any = None,
        *,
        by: str,
        override: bool = False,
        on_behalf_of: str = "",
        undo: bool = False,
        as_text: bool = False,
        **fields: Any,
    ) -> VoteCount:
        """Answer a request, or a run's only one, as this person: ``t.answer(run, "reject", by="ana", reason="no")``.

        ``value``: the name of an action with its fields beside it, or the answer itself. ``override``,
        ``on_behalf_of``: what operators may. ``undo``: as on a page, where it takes effect after the time to undo it.
        ``as_text``: a text that reads like yes or no is meant as text, where the question does not say what it takes.
        """
        request = target.request if isinstance(target, BenchRun) else target
        sent = written_out(request.answer_schema, value, fields)
        options: dict[str, Any] = {"override": override, "on_behalf_of": on_behalf_of, "undo": undo}
        options["as_text"] = as_text

        def act() -> VoteCount:
            reply = answer_request(self._viewer(by), request.id, sent, via="bench", **options)
            votes, need, decided = vote_progress(Reply.objects.select_related("request").get(pk=reply.pk))
            return VoteCount(votes=votes, need=need, decided=decided)

        with saying_what():
            vote = await self._thread.call(act)
        await self._settle()
        return vote

    async def undo(self, target: BenchRun | BenchRequest, *, by: str) -> None:
        """Undo this person's answer, or take their vote back."""
        request = target.request if isinstance(target, BenchRun) else target
        await self._act(lambda: undo_answer(self._viewer(by), request.id))

    async def signal(self, run: BenchRun, name: str, value: Any = None, *, by: str = "") -> None:
        """Send a signal to a run."""
        given = as_json(value)
        await self._act(lambda: send_signal(self._viewer(by), run.id, name, given))

    async def restore(
        self, run: BenchRun, checkpoint: CheckpointInfo, *, edits: Edits | None = None, by: str = ""
    ) -> None:
        """Restore a run to one of its checkpoints, with or without edits."""
        await self._act(lambda: restore_run(self._viewer(by), run.id, checkpoint.id, edits=edits))

    async def fork(
        self, run: BenchRun, checkpoint: CheckpointInfo, *, edits: Edits | None = None, by: str = ""
    ) -> BenchRun:
        """Start a new run from a checkpoint and return it."""
        row = await self._thread.call(lambda: fork_run(self._viewer(by), run.id, checkpoint.id, edits=edits))
        return await self._settled(row.pk)

    async def retry(self, run: BenchRun, *, by: str = "") -> None:
        """Retry a failed run."""
        await self._act(lambda: retry_run(self._viewer(by), run.id))

    async def cancel(self, run: BenchRun, *, by: str = "") -> None:
        """Cancel a run."""
        await self._act(lambda: cancel_run(self._viewer(by), run.id))

    async def pause(self, run: BenchRun, *, by: str = "") -> None:
        """Pause a run."""
        await self._act(lambda: pause_run(self._viewer(by), run.id))

    async def resume(self, run: BenchRun, *, by: str = "") -> None:
        """Resume a paused run."""
        await self._act(lambda: resume_run(self._viewer(by), run.id))

    async def schedule(
        self, cron: str, message: Any = None, *, by: str, zone: str = "UTC", workflow: Workflow | str = ""
    ) -> None:
        """Let a schedule start runs on behalf of this person, who must be an operator: ``advance`` fires it."""
        plan = SchedulePlan(name=f"{cron} {zone}", cron=cron, zone=zone, message=as_json(message))
        name = self._named(workflow)
        await self._act(lambda: create_schedule(self._viewer(by), name, plan))

    # -- what a test does to the world

    async def advance(self, duration: Duration) -> None:
        """Move time on: ``"4h"``, ``"1d 12h"``, seconds or a timedelta.

        Sleeps end, and reminders, escalations, deadlines, schedules and retries happen in their order, each at its own
        time.
        """
        until = clock.now() + span_of(duration)
        while (at := await self._thread.call(next_moment, clock.now(), until)) is not None:
            await self._move_to(at)
        await self._move_to(until)

    def replace(self, name: str, function: Callable[..., Any]) -> None:
        """Let every ``ctx.call`` of this name call another function: by default the name of its own function."""
        self._driver.replaced[name] = function

    def crash_after(self, name: str, *, recorded: bool = True) -> None:
        """Let the worker's process die once, after the next call of this name; another worker then continues the run.

        ``recorded=False``: it dies between the call and its record, so that no one knows whether it happened.
        """
        self._driver.crashes.append(Crash(call=name, recorded=recorded))

    # -- inside

    def _viewer(self, name: str) -> Viewer:
        return self._cast.viewer(name)

    def _named(self, workflow: Workflow | str) -> str:
        if not workflow and len(self._workflows) > 1:
            known = ", ".join(one.name for one in self._workflows)
            raise ValueError(f"this bench has several workflows, say which with workflow=: {known}")
        chosen = workflow or self._workflows[0]
        return chosen.name if isinstance(chosen, Workflow) else chosen

    async def _act(self, action: Callable[[], object]) -> None:
        with saying_what():
            await self._thread.call(action)
        await self._settle()

    async def _move_to(self, at: datetime) -> None:
        clock.move_to(at)
        await self._storage.follow_clock()
        await self._settle()

    async def _settled(self, run_id: str) -> BenchRun:
        await self._settle()
        return self._runs[run_id]

    async def _settle(self) -> None:
        """Do all that is due now, until nothing is."""
        while True:
            await self._thread.call(_sweep)
            if not await self._driver.drive_due():
                break
        await self._thread.call(self._refresh)

    def _refresh(self) -> None:
        for run_id in all_runs():
            run = self._runs.setdefault(run_id, BenchRun(id=run_id))
            refresh(run)


@contextlib.contextmanager
def saying_what() -> Iterator[None]:
    """Add to a refused value what is wrong with which field, as a note that pytest prints."""
    try:
        yield
    except Invalid as error:
        for one in error.errors:
            error.add_note(f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}")
        raise


def _sweep() -> None:
    """Do what a worker's jobs do each second."""
    while sweeps.sweep_deadlines() == 0.0 or sweeps.start_scheduled() == 0.0:
        continue


def catalog_of(workflows: tuple[Workflow, ...]) -> catalog.Catalog:
    """Return a catalogue of these. ``InvalidWorkflow``."""
    engines, _ = load_engines(settings.WFDASH_ENGINES)
    found = catalog.Catalog()
    for workflow in workflows:
        engine = next(engine for engine in engines if engine.accepts(workflow))
        described = engine.describe(workflow)
        found.entries[workflow.name] = catalog.Entry(
            name=workflow.name, definition=workflow, engine=engine, description=described, source="bench"
        )
    return found

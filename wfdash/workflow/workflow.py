"""``Workflow``: the definition, and the one method that starts, answers, resumes and recovers its runs; its stream."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, ParamSpec, Self, cast

from typing_extensions import TypeVar

from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_run_id
from checkpoints.records import Checkpoint, EventDraft, Json, JsonObject, Phase, RunInfo
from checkpoints.storage import Runs
from wfdash.contract import DEFAULT_QUEUE, Outcome, problem_of_limit, problem_of_queue
from wfdash.domain.labels import humanize
from wfdash.domain.search_attributes import problem_of as problem_of_title
from wfdash.questions.policy import Duration, Policy
from wfdash.workflow.authoring import (
    After,
    Function,
    Hook,
    MigrationHook,
    Named,
    Retry,
    Step,
    Switch,
    checked,
    limit_of,
    local_names,
    rate_of,
    refuse_bare,
)
from wfdash.workflow.build import build
from wfdash.workflow.errors import InvalidCall, InvalidWorkflow
from wfdash.workflow.graph import Graph, Sub
from wfdash.workflow.reducer.routing import accept_input, input_schema
from wfdash.workflow.runtime.call import UNSET, Prepare, as_run_id, begin, check_arguments, resume, seconds, typed
from wfdash.workflow.runtime.recorders import ClaimingRecorder, StorageLike, UnreadEvents


class RunStream(AsyncIterable[EventDraft]):
    """Yields events in order, each only after it was committed. ``checkpoint`` is the one current at that event.

    The run starts with the first event that is asked for, and ends with the loop: however ``async for`` is left
    (``break``, an exception, a timeout, a cancellation), the run is stopped. ``async with`` also waits until it has
    stopped. What was committed stays and can be resumed. A reader that is slow holds the run back: no step and no call
    begins while something is unread. Streamed text comes as events of kind ``stream``, which are not stored; so much of
    it that a million characters are unread is ``cut``.

    It is iterated once: ``InvalidCall`` for a second iterator, and after ``aclose``.
    """

    def __init__(self, prepare: Prepare) -> None:
        self.checkpoint: Checkpoint | None = None
        self._prepare = prepare
        self._unread = UnreadEvents()
        self._task: asyncio.Task[Outcome] | None = None
        self._claiming: ClaimingRecorder | None = None
        self._outcome: Outcome | None = None
        self._iterated = self._closed = self._reading = False

    @property
    def outcome(self) -> Outcome:
        """How the call ended; there once the iteration is over."""
        if self._outcome is None:
            raise InvalidCall("the run is not over: iterate to the end before reading .outcome")
        return self._outcome

    def __aiter__(self) -> AsyncIterator[EventDraft]:
        """Return its one iterator. The run is stopped when that is thrown away."""
        if self._iterated:
            raise InvalidCall("a stream has one iterator: call run_stream again, with the run's checkpoint or id")
        if self._closed:
            raise InvalidCall("the stream is closed: call run_stream again, with the run's checkpoint or id")
        self._iterated = True
        return StreamedEvents(self)

    async def read(self) -> EventDraft | None:
        """Return the next event; None at the end. A reader that is cancelled stops the run."""
        if self._reading:
            raise InvalidCall("another task is reading this stream")
        if self._task is None:
            if self._closed:
                return None
            self._task = asyncio.create_task(self._go())
            self._task.add_done_callback(self._unread.end)
        self._reading = True
        try:
            found = await self._unread.get()
        except asyncio.CancelledError:
            await self._stop(self._task)
            raise
        finally:
            self._reading = False
        if self._closed:
            return None
        if found is not None:
            self.checkpoint = found[1] or self.checkpoint
            return found[0]
        self._take_outcome(await self._task)
        return None

    async def _go(self) -> Outcome:
        drive = await self._prepare(self._unread)
        self._claiming = drive.claiming
        return await drive.go()

    def abandon(self) -> None:
        """Stop the run soon: no one reads on. From any thread, and without an event loop."""
        self._closed = True
        if self._task is not None and not self._task.done():
            if self._claiming is not None:
                self._claiming.end_soon()
            with suppress(RuntimeError):  # Its event loop is closed.
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def aclose(self) -> None:
        """Stop driving the run; returns once it has stopped. Raises what its end raised."""
        self._closed = True
        if self._task is not None and not self._task.done():
            await self._stop(self._task)
            if not self._task.cancelled():
                self._take_outcome(self._task.result())

    async def _stop(self, task: asyncio.Task[Outcome]) -> None:
        self._closed = True
        task.cancel()
        await asyncio.wait({task})

    def _take_outcome(self, outcome: Outcome) -> None:
        self._outcome, self.checkpoint = outcome, outcome.checkpoint

    async def __aenter__(self) -> RunStream:
        """Use it in ``async with`` to be sure that it has stopped."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop driving the run."""
        await self.aclose()


class StreamedEvents(AsyncIterator[EventDraft]):
    """The iterator of a stream. Nothing of the run refers to it: when its loop is left, it is gone."""

    def __init__(self, stream: RunStream) -> None:
        self._stream = stream

    async def __anext__(self) -> EventDraft:
        """Return the next event."""
        event = await self._stream.read()
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Stop driving the run."""
        await self._stream.aclose()

    def __del__(self) -> None:
        """Stop the run if its reader has left."""
        self._stream.abandon()


Answers = Mapping[str, Any] | Mapping[RequestKey, Any]


NAME = re.compile(r"\w[\w.-]*")
"""The pattern of a workflow's name."""

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", default=Any)
S = TypeVar("S", default=Any)


def _in_a_loop_of_its_own(call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Return the method that makes the same call and blocks until it has ended."""

    def run_sync(*args: P.args, **kwargs: P.kwargs) -> R:
        """Make the call of ``run`` where no event loop runs, and return its outcome; ``InvalidCall`` where one runs."""
        if asyncio._get_running_loop() is not None:
            raise InvalidCall("run_sync blocks, and an event loop runs here: write await workflow.run(...)")
        return asyncio.run(call(*args, **kwargs))

    return run_sync


class Workflow(Generic[M, S]):
    """A named graph of steps. It holds no run: one definition serves any number of runs at once.

    ``Workflow[Claim]`` says what message its runs take, for checkers and editors: ``run`` then wants a ``Claim``.

    ``state``: a pydantic model or dataclass for ``ctx.state``, with defaults; None for a free dict. ``reducers``: key
    -> ``f(current, contribution)`` for keys that overlapping steps write. ``max_steps``: how many steps of one loop may
    run between two answers of people. ``policy``: the default policy of its requests. ``run_title``: what its runs are
    called, with fields of their input: ``"Deploy {service} {version}"``. Everyone who sees a run sees its title.
    ``queue``: only workers that serve it take its runs (``wfdash worker --queues``). ``limit``: how many of its runs
    may execute at once, in all workers; those that wait for people or a time do not count.
    """

    def __init__(
        self,
        name: str,
        *,
        title: str = "",
        run_title: str = "",
        doc: str = "",
        state: type[S] | None = None,
        reducers: Mapping[str, Callable[[Any, Any], Any]] | None = None,
        max_steps: int = 1000,
        policy: Policy | None = None,
        examples: tuple[Any, ...] | list[Any] = (),
        queue: str = DEFAULT_QUEUE,
        limit: int | None = None,
    ) -> None:
        self.name = checked("workflow name", name)
        if not NAME.fullmatch(name):
            raise InvalidWorkflow(
                f"workflow name {name!r}: it is part of addresses, so use letters, digits, . _ and - only,"
                " and say in title= what people read"
            )
        self.title = title or humanize(name)
        checked("workflow title", self.title)
        self.run_title = checked("run title", run_title)
        self.doc = doc
        self.state = state
        self.reducers: Mapping[str, Callable[[Any, Any], Any]] = dict(reducers or {})
        self.max_steps = max_steps
        self.policy = policy
        self.examples = tuple(examples)
        if problem := problem_of_queue(queue) or problem_of_limit(limit):
            raise InvalidWorkflow(f"workflow {name!r}: {problem}")
        self.queue, self.limit = queue, limit
        self._steps: dict[str, Step] = {}
        self._subs: dict[str, Sub] = {}
        self._hooks: list[MigrationHook] = []
        self._switches = 0
        self._graph: Graph | None = None
        frame = sys._getframe(1)
        self.place: tuple[str, int] = (frame.f_code.co_filename, frame.f_lineno)
        """The file and line at which it is made."""

    def __class_getitem__(cls, _types: Any) -> type[Self]:
        """Return the class itself: what stands in brackets is for checkers and editors."""
        return cls

    def __repr__(self) -> str:
        """Return its name."""
        return f"Workflow({self.name!r})"

    @property
    def steps(self) -> Mapping[str, Step]:
        """Return the declared steps by name."""
        return self._steps

    @property
    def subs(self) -> Mapping[str, Sub]:
        """Return the declared sub-workflows by name."""
        return self._subs

    @property
    def graph(self) -> Graph:
        """Return the compiled graph. The first use validates: ``InvalidWorkflow`` names what is wrong."""
        if self._graph is None:
            graph = build(self)
            if self.run_title and (problem := problem_of_title(self.run_title, input_schema(graph))):
                raise InvalidWorkflow(f"run_title of workflow {self.name!r}: {problem}")
            self._graph = graph
        return self._graph

    @property
    def version(self) -> str:
        """Return the graph's signature; a checkpoint of another one resumes only by a declared migration or old
        name.
        """
        return self.graph.version

    def step(
        self,
        bare: Function | None = None,
        /,
        *,
        start: bool = False,
        follow_up: bool = False,
        after: After | None = None,
        when: Callable[[Any], Any] | None = None,
        otherwise: bool = False,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        concurrency: int | None = None,
        rate: str | None = None,
        name: str | None = None,
        title: str = "",
        people: bool = False,
        was: str | tuple[str, ...] = (),
    ) -> Callable[[Function], Step]:
        """Declare a step: an async function, or a synchronous one (run in a thread). Returns a decorator, or the step.

        It takes ``(message, ctx)``, ``(message)``, ``(ctx)`` or nothing. ``start``: a run's message, with ``follow_up``
        that to a completed run. ``after``: what triggers it. ``when``: a predicate on the value; ``otherwise``: if no
        other of that source held. ``timeout``: how long it may work (``"5m"``). ``concurrency``: how many at once in a
        run. ``rate``: starts in all runs (``"60/m"``). ``people``: drawn as if it had ``ctx.ask``. ``was``: old names.
        """
        refuse_bare(bare)
        names, limit, pace = local_names(), limit_of(timeout), rate_of(rate, self.name)

        def declare(function: Function) -> Step:
            step = Step(
                name=name or str(getattr(function, "__name__", "step")),
                function=function,
                start=start,
                follow_up=follow_up,
                after=after,
                when=when,
                otherwise=otherwise,
                retry=retry,
                timeout=limit,
                concurrency=concurrency,
                rate=pace,
                title=title,
                people=people,
                was=(was,) if isinstance(was, str) else tuple(was),
                names=names,
            )
            return self.add(step)

        return declare

    def add(self, step: Step) -> Step:
        """Add a step that was declared elsewhere, as it is, and return it."""
        self._claim_name(step.name)
        self._steps[step.name] = step
        return step

    def sub(
        self,
        name: str,
        child: Workflow[Any, Any],
        *,
        start: bool = False,
        after: After | None = None,
        when: Callable[[Any], Any] | None = None,
        otherwise: bool = False,
        was: str | tuple[str, ...] = (),
    ) -> Sub:
        """Use another workflow as a step. Its requests are the run's; its state keeps its own names."""
        before = (was,) if isinstance(was, str) else tuple(was)
        sub = Sub(name=name, child=child, start=start, after=after, when=when, otherwise=otherwise, was=before)
        self._claim_name(name)
        self._subs[name] = sub
        return sub

    def switch(self, source: Named | str, *, key: Callable[[Any], Any]) -> Switch:
        """Route what ``source`` returns by ``key(value)``: ``after=switch.case("high")``, ``after=switch.default``."""
        self._switches += 1
        return Switch(source, f"switch{self._switches}", key)

    def migrate(self, *, from_version: str, to_version: str = "") -> Callable[[Hook], Hook]:
        """Return a decorator that declares how a run of an older graph continues: ``hook(migration)`` changes the
        ``Migration``.

        It leads to ``to_version``; without one to the next hook's ``from_version``, from the last hook to the current
        graph. The result must be valid there, or the run is not changed.
        """

        def declare(hook: Hook) -> Hook:
            if any(known.from_version == from_version for known in self._hooks):
                raise InvalidWorkflow(f"workflow {self.name!r} has two migrations from version {from_version!r}")
            self._hooks.append(MigrationHook(from_version=from_version, to_version=to_version, hook=hook))
            return hook

        return declare

    @property
    def hooks(self) -> tuple[MigrationHook, ...]:
        """Return the declared migrations, in order."""
        return tuple(self._hooks)

    def _claim_name(self, name: str) -> None:
        if name in self._steps or name in self._subs:
            raise InvalidWorkflow(f"workflow {self.name!r} has two steps named {name!r}")
        if not name or set(name) & set("/>@*:"):
            raise InvalidWorkflow(f"step name {name!r}: must not be empty or contain any of / > @ * :")
        checked("step name", name)
        self._graph = None

    def bind(self, storage: StorageLike) -> BoundWorkflow[M]:
        """Return the workflow with a storage or manager that keeps its runs: ``start``, ``resume``, ``runs``."""
        return BoundWorkflow(self, storage)

    def input_schema(self) -> JsonObject:
        """Return the JSON Schema of ``run``'s message."""
        return input_schema(self.graph)

    def check_input(self, message: Any) -> Json:
        """Return the message as JSON; ``InvalidInput`` with errors per field if no start step takes it."""
        return accept_input(self.graph, message)[1]

    async def run(
        self,
        message: M = UNSET,
        *,
        answers: Answers | None = None,
        checkpoint: Checkpoint | CheckpointId | str | None = None,
        follows: Checkpoint | None = None,
        storage: StorageLike = None,
        run_id: RunId | str | None = None,
        park_after: Duration = 1.0,
    ) -> Outcome:
        """Start (``message``), answer (``answers``), resume or recover (``checkpoint``, or ``run_id`` with a storage).

        Returns ``Finished``, ``Waiting`` or ``Failed``, each with the ``checkpoint`` to continue from. ``checkpoint``:
        a record, or its id with ``storage`` and ``run_id``. ``answers``: request key -> value or ``Answer``.
        ``storage``: a storage, manager, journal or recorder; without one the caller keeps the checkpoint.
        ``park_after``: sleeps longer than this (``"1m"``, seconds) suspend the run. ``follows``: the last checkpoint of
        a completed run, on which the message follows up: a new run begins with its state, at the steps with
        ``follow_up=True``.

        Where the storage offers claims, the run is claimed while it runs, and answers that people gave count.
        ``Conflict``, before anything runs: another process or worker has it (``facts``: worker, expires), it has moved
        on since ``checkpoint``, or a person paused or cancelled it. ``AlreadyAnswered``: a request has another answer.
        ``ClaimLost``: another process took the run over; its last step was not written. ``InvalidCall`` names arguments
        that do not go together; ``InvalidInput`` invalid values; ``Incompatible`` a checkpoint of another graph to
        which no ``migrate`` hook and no old name (``was``) leads; ``Damaged`` one that cannot be read.

        Nothing of a policy is enforced here: who answers, how many have to and by when is the application's affair. The
        dashboard enforces it, and so does ``wfdash.testing.bench``.
        """
        prepare = self._prepare(message, answers, checkpoint, follows, storage, run_id, park_after)
        return await (await prepare(None)).go()

    run_sync = _in_a_loop_of_its_own(run)

    def run_stream(
        self,
        message: M = UNSET,
        *,
        answers: Answers | None = None,
        checkpoint: Checkpoint | CheckpointId | str | None = None,
        follows: Checkpoint | None = None,
        storage: StorageLike = None,
        run_id: RunId | str | None = None,
        park_after: Duration = 1.0,
    ) -> RunStream:
        """Make the same call, yielding each event once it is committed; then ``.outcome``. See ``RunStream``."""
        return RunStream(self._prepare(message, answers, checkpoint, follows, storage, run_id, park_after))

    def _prepare(
        self,
        message: Any,
        answers: Answers | None,
        checkpoint: Checkpoint | CheckpointId | str | None,
        follows: Checkpoint | None,
        storage: StorageLike,
        run_id: RunId | str | None,
        park_after: Duration,
    ) -> Prepare:
        """Return what makes the drive of a call. ``InvalidCall`` for arguments that do not go together."""
        chosen, run, park = typed(checkpoint), as_run_id(run_id), seconds(park_after)
        starts = message is not UNSET
        check_arguments(starts, answers, chosen, follows, storage, run)
        if starts:
            return partial(begin, self.graph, message, follows, storage, run or new_run_id(), park, self.run_title)
        return partial(resume, self.graph, self.hooks, answers or {}, chosen, storage, run, park)


class BoundWorkflow(Generic[M]):
    """What ``workflow.bind(storage)`` returns. It holds no run; errors are those of ``Workflow.run``."""

    def __init__(self, workflow: Workflow[M, Any], storage: StorageLike) -> None:
        self.workflow = workflow
        self.storage = storage

    async def start(self, message: M | None = None, *, run_id: RunId | str | None = None) -> Outcome:
        """Start a run and return how it ended or what it waits for; ``outcome.checkpoint.run`` is its id."""
        return await self.workflow.run(cast(M, message), storage=self.storage, run_id=run_id)

    async def resume(self, run_id: RunId | str, *, answers: Answers | None = None) -> Outcome:
        """Continue a run from its newest checkpoint, with answers or after a crash."""
        return await self.workflow.run(answers=answers, storage=self.storage, run_id=run_id)

    async def runs(
        self, *, phase: Phase | None = None, before: RunInfo | None = None, limit: int = 50
    ) -> Sequence[RunInfo]:
        """Return its runs, the newest first. ``before``: the last one of the page before. ``InvalidCall`` where the
        storage lists none.
        """
        storage = getattr(self.storage, "storage", self.storage)
        if not isinstance(storage, Runs):
            raise InvalidCall(f"{type(storage).__name__} keeps no list of runs: it has no list_runs()")
        named = WorkflowId(self.workflow.name)
        return await storage.list_runs(workflow=named, phase=phase, before=before, limit=limit)

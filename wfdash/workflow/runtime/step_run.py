"""Runs one activation's function once, from its top, and reports how it ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from checkpoints.records import ErrorInfo, Json
from wfdash.values.codec import FLAT, is_large
from wfdash.values.display import truncate
from wfdash.values.errors import error_info, report_failure
from wfdash.workflow.errors import InvalidCall, StepTimeout
from wfdash.workflow.graph import Graph, Node
from wfdash.workflow.reducer.moment import StateView
from wfdash.workflow.reducer.routing import plain, route, unpack
from wfdash.workflow.reducer.ticks import Route, StepEnded, StepFailed, Tick
from wfdash.workflow.runtime.context import Context
from wfdash.workflow.runtime.invoke import cancel_and_wait, in_thread
from wfdash.workflow.runtime.step_ops import Host, StepOps, running_step
from wfdash.workflow.stored import Activation, Packed, causes_of, is_engine_code

T = TypeVar("T")
CONVERT_SECONDS = 60.0
"""Seconds that large values of a step may take to be read, and to be stored, each time in a thread."""


class StepRun:
    """One try at one activation. ``ops`` is what the loop resolves; ``task`` what it may cancel."""

    def __init__(self, graph: Graph, host: Host, activation: str, record: Activation, seen: Mapping[str, Json]) -> None:
        self.activation = activation
        self.node = graph.nodes[record["step"]]
        self.ops = StepOps(host, self.node, activation, record)
        self._graph, self._host, self._record = graph, host, record
        prefix = f"{self.node.parent}/" if self.node.parent else ""
        self._state = StateView(graph.state, prefix, seen)
        self.task = host.loop.create_task(self._go(), name=f"step {self.node.name} {activation}")
        self.ops.main = self.task

    async def _go(self) -> None:
        began = time.perf_counter()
        running_step.set(self.ops)
        tick: Tick
        try:
            tick = await self._attempt(began)
        except asyncio.CancelledError:
            if self.task.cancelling():  # The drive has ended it.
                raise
            tick = self.failure(InvalidCall("the step cancelled itself"))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Anything a step raises must end it visibly: otherwise the run would wait for this task without end.
            tick = self.failure(error)
        if left := self.ops.cut():
            await cancel_and_wait(left, self._host.run_id)
        self.ops.leave()
        self._host.post(tick)

    async def _attempt(self, began: float) -> Tick:
        node, record, message = self.node, self._record, None
        if node.takes_message:
            packed = record["message"]
            if type(packed[1]) in FLAT or not is_large(packed[1]):
                message = unpack(self._graph, node, packed)
            else:
                message = await self._aside(lambda: unpack(self._graph, node, packed), "read")
        if node.join is not None and node.join.when is not None and not node.join.when(message):
            return StepEnded(at=self._host.now(), activation=self.activation, skipped=True)
        context = Context(self.ops, self._state, attempt=record.get("attempt", 1))
        value = await self._call([*map({"message": message, "ctx": context}.__getitem__, node.order)])
        await self.ops.check_end()
        if any(map(is_large, [one for one in (value, *self._state.held) if type(one) not in FLAT])):
            routes, output, writes = await self._converted_aside(value)
        else:
            routes, output, writes = self._converted(value)
        return StepEnded(
            at=self._host.now(),
            activation=self.activation,
            routes=tuple(routes),
            output=output,
            writes=writes,
            ms=round((time.perf_counter() - began) * 1000, 3),
            shown=self._display_output(value, routes, output),
        )

    def _display_output(self, value: Any, routes: list[Route], output: Packed | None) -> Json:
        if output is not None:
            return truncate(plain(output))
        for one in routes:
            if one.edge is not None and one.edge.kind != "each" and one.items[0][1][0] is not None:
                return truncate(plain(one.items[0][1]))
        return f"{len(value)} items" if isinstance(value, list) else None

    async def _call(self, args: list[Any]) -> Any:
        function, limit = self.node.function, self.node.timeout
        if self.node.rate is not None:
            workflow, every = self.node.rate
            await self._host.in_turn(f"{workflow}/{self.node.name.rpartition('/')[2]}", every)
        await self._host.confirm()
        if limit is None:
            return await function(*args) if self.node.is_async else await self._in_thread(args)
        async with self._limited(limit, f"step {self.node.name!r} took longer than {limit:g} s"):
            return await function(*args) if self.node.is_async else await self._in_thread(args)

    def _converted(self, value: Any) -> tuple[list[Route], Packed | None, dict[str, Any]]:
        """Return a step's output and writes as JSON."""
        return *route(self._graph, self.node, value), self._state.collect()

    async def _converted_aside(self, value: Any) -> tuple[list[Route], Packed | None, dict[str, Any]]:
        if left := self.ops.cut():
            await cancel_and_wait(left, self._host.run_id)
        try:
            return await self._aside(lambda: self._converted(value), "store")
        except RuntimeError:
            # Other code may have changed a value at the same time, which it cannot while only this runs.
            return self._converted(value)

    async def _aside(self, convert: Callable[[], T], verb: str) -> T:
        """Convert large values in a thread. ``StepTimeout`` if that takes too long: the thread continues, and the run
        is not driven again in this process before it has ended.
        """
        words = f"step {self.node.name!r} has a value that took longer than {CONVERT_SECONDS:g} s to {verb}"
        words += ": keep large values elsewhere, and their address in the run"
        async with self._limited(CONVERT_SECONDS, words):
            return await in_thread(convert, self.node.name)

    @asynccontextmanager
    async def _limited(self, seconds: float, words: str) -> AsyncIterator[None]:
        """End the body after so many seconds of work. ``StepTimeout`` with these words then."""
        try:
            async with asyncio.timeout(seconds) as self.ops.timeout:
                yield
        except TimeoutError as error:
            if self.ops.timeout is None or not self.ops.timeout.expired():
                raise
            raise StepTimeout(words) from error
        finally:
            self.ops.timeout = None

    async def _in_thread(self, args: list[Any]) -> Any:
        return await in_thread(lambda: self.node.function(*args), self.node.name)

    def failure(self, error: BaseException) -> StepFailed:
        """Return how this try ended with an error: the step runs again after a delay, or the run fails."""
        retry = self.node.retry
        delay = retry.delay_after(self._record.get("attempt", 1), error) if retry is not None else None
        attempts = retry.attempts if retry is not None else 1
        info = describe_error(error, self.node)
        if "coroutine" in info.message and (forgotten := self.ops.forget()):
            info = info.model_copy(update={"message": f"{info.message}. The step did not await {forgotten}"})
            with suppress(Exception):  # An author's class may refuse it.
                error.add_note(f"The step did not await {forgotten}")
        if delay is None:
            report_failure(error, self.node.name)
        raised = causes_of(error)
        calls = tuple(index for index, its in self.ops.errors.items() if its in raised)
        at = self._host.now()
        return StepFailed(at=at, activation=self.activation, error=info, delay=delay, attempts=attempts, calls=calls)


def describe_error(error: BaseException, node: Node) -> ErrorInfo:
    """Turn an exception into a record; the traceback starts in the step's own code."""
    here = error.__traceback__
    while here is not None and is_engine_code(here.tb_frame.f_code) and here.tb_next is not None:
        here = here.tb_next
    return error_info(error, node.name, since=here)

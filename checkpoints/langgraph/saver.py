"""``DjangoSaver``: LangGraph's checkpointer on a Django project's database; the dashboard has no part in it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from threading import get_ident
from typing import Any, Self, TypeVar

from django.apps import apps
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from checkpoints.errors import InvalidConfig
from checkpoints.langgraph.encoding import Heads
from checkpoints.langgraph.serializer import AllowedTypes, refuse_pickle
from checkpoints.langgraph.verbs import Access, ThreadPage, Verb, Verbs, Wait
from checkpoints.langgraph.writes import Company

T = TypeVar("T")

BUSY = 0.005
"""Seconds after which a list lets the event loop's other tasks run."""


class DjangoSaver(BaseCheckpointSaver[Any]):
    """Keeps threads in the tables of the app ``checkpoints.langgraph``. For any event loop and thread.

    What a thread has stored already is not stored again. Synchronous methods run in the caller's thread, asynchronous
    ones on connections of their loop; ``aclose()`` or ``async with`` ends those, ``close()`` or ``with`` the others.
    Content is encrypted where ``WFDASH_ENCRYPTION_KEYS`` is set. Damaged content is ``Damaged``, never something else.
    """

    def __init__(
        self,
        *,
        using: str | None = None,
        serde: SerializerProtocol | None = None,
        allow: Iterable[type | tuple[str, ...]] = (),
    ) -> None:
        """``using`` names one of Django's databases, else it is wfdash's.

        ``allow``: classes of your state, or their ``(module, name)``. Besides what LangGraph knows to be safe only
        these are made again from what is stored, so a value of another class is refused when it is to be stored.
        ``serde``: another serializer. ``InvalidConfig`` if it may unpickle, or if the app is not installed.
        """
        if not apps.is_installed("checkpoints.langgraph"):
            raise InvalidConfig('add "checkpoints" and "checkpoints.langgraph" to INSTALLED_APPS, and migrate')
        refuse_pickle(serde)
        super().__init__(serde=serde or AllowedTypes(allow))
        self._access = Access(using)
        self._heads = Heads()
        self._company = Company()

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> DjangoSaver:
        """Return a saver of the same threads that makes these types again, too."""
        clone = super().with_allowlist(extra_allowlist)
        assert isinstance(clone, DjangoSaver)  # noqa: S101, for the type checker: it is a copy of this one
        return clone

    # Life

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """End threads and connections that belong to no event loop; a later call opens others."""
        self._access.close()

    async def aclose(self) -> None:
        """End all threads and connections; a later call opens others."""
        await self._access.aclose()

    # For graphs that run in a thread

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that ``config`` names, or the newest of its thread and namespace. ``Damaged``."""
        return self._perform(self._verbs.get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002, LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, those with the greatest ids first, a page at a time.

        ``filter``: values that the metadata must have. Without ``config`` those of all threads.
        """
        page: ThreadPage | None = self._verbs.first_page(config, filter, before, limit)
        while page is not None:
            found, page = self._perform(self._verbs.page(page))
            yield from map(self._verbs.tuple_of, found)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, in place of one with its id. ``InvalidValue``; ``Conflict`` inside of a transaction."""
        return self._perform(self._verbs.put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint, be that stored already or not."""
        self._perform(self._verbs.put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all it has. What a copy needs stays with the copy."""
        self._perform(self._verbs.delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints with these run ids in their metadata, and their writes.

        ``Conflict`` if the value of a ``DeltaChannel`` in a later checkpoint needs one of them; its thread stays as it
        is.
        """
        self._perform(self._verbs.delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread; its content is stored once for both. ``Conflict`` if the target exists."""
        self._perform(self._verbs.copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace (``keep_latest``) or nothing (``delete``).

        Checkpoints that a ``DeltaChannel`` of the newest one needs for its value are kept, too.
        """
        self._perform(self._verbs.prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what the values of channels that store changes are made of."""
        return self._perform(self._verbs.delta_history(config, channels))

    # For graphs that run in an event loop

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See ``get_tuple``."""
        return await self._aperform(self._verbs.get(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002, LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See ``list``. The event loop's other tasks run in between."""
        page: ThreadPage | None = self._verbs.first_page(config, filter, before, limit)
        while page is not None:
            found, page = await self._aperform(self._verbs.page(page))
            began = time.monotonic()
            for one in found:
                if time.monotonic() - began > BUSY:
                    await asyncio.sleep(0)
                    began = time.monotonic()
                yield self._verbs.tuple_of(one)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See ``put``."""
        return await self._aperform(self._verbs.put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See ``put_writes``."""
        await self._aperform(self._verbs.put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """See ``delete_thread``."""
        await self._aperform(self._verbs.delete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See ``delete_for_runs``."""
        await self._aperform(self._verbs.delete_for_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See ``copy_thread``."""
        await self._aperform(self._verbs.copy_thread(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See ``prune``."""
        await self._aperform(self._verbs.prune(thread_ids, strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See ``get_delta_channel_history``."""
        return await self._aperform(self._verbs.delta_history(config, channels))

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return a version after the current one: a number, or in the form that other savers gave it."""
        if isinstance(current, str):
            count, dot, rest = current.partition(".")
            return f"{int(count) + 1:0{len(count)}}{dot}{rest}"
        return super().get_next_version(current, channel)

    @property
    def _verbs(self) -> Verbs:
        return Verbs(self.serde, self._heads, self._company)

    def _perform(self, verb: Verb[T]) -> T:
        """Return the result of a verb, in this thread."""
        try:
            call = next(verb)
            while True:
                try:
                    found = wait_blocking(call) if isinstance(call, Wait) else self._access.run_blocking(call)
                except BaseException as error:
                    call = verb.throw(error)
                else:
                    call = verb.send(found)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _aperform(self, verb: Verb[T]) -> T:
        """Return the result of a verb, in this event loop."""
        try:
            call = next(verb)
            while True:
                try:
                    found = await (wait(call) if isinstance(call, Wait) else self._access.run(call))
                except BaseException as error:
                    call = verb.throw(error)
                else:
                    call = verb.send(found)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def wait_blocking(call: Wait) -> bool | None:
    """Return the result that a verb waits for, None if there is none in time."""
    try:
        return call.result.result(call.seconds)
    except TimeoutError:
        return None


async def wait(call: Wait) -> bool | None:
    """Return the result that a verb waits for, None if there is none in time."""
    loop, here = asyncio.get_running_loop(), get_ident()
    over: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    def note(_: futures.Future[bool]) -> None:
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            if get_ident() == here:  # To wake a loop as from another thread costs more.
                end()
            else:
                loop.call_soon_threadsafe(end)

    timer = None if call.seconds is None else loop.call_later(call.seconds, end)
    call.result.add_done_callback(note)
    try:
        await over
    finally:
        if timer is not None:
            timer.cancel()
    return call.result.result() if call.result.done() else None

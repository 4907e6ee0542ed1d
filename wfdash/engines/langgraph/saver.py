"""What LangGraph saves to while a run is driven: keeps the newest checkpoint of every namespace and commits it.

A saver is made for one drive and thrown away. LangGraph writes twice per step: what each task has written, then the
checkpoint that takes it in. The former wait a moment, since the latter mostly follows at once; questions do not.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from checkpoints.records import JsonObject, Reason
from wfdash.engines.langgraph.committer import Committer
from wfdash.engines.langgraph.private import CONTROL, ERROR, ERROR_SOURCE, INTERRUPT, RESUME, delta_channels_in
from wfdash.engines.langgraph.thread import Space, Thread
from wfdash.engines.langgraph.values import decode, encode
from wfdash.values.errors import message_of

HELD = 0.02
"""Seconds that what a task has written waits for the checkpoint that takes it in."""
PROMPT = 0.002
"""Seconds that a question waits: those of one moment share a commit."""


@dataclass(slots=True)
class _Written:
    """What a task has written since a checkpoint, which may not be there yet."""

    checkpoint: str
    task: str
    path: str
    writes: list[tuple[str, Any]]


class DriveSaver(BaseCheckpointSaver[int]):
    """A LangGraph saver over the commits of one drive. ``on_written(ns, task, writes)`` hears what tasks write."""

    def __init__(self, run: str, thread: Thread, committer: Committer) -> None:
        super().__init__()
        self.on_written: Callable[[str, str, list[tuple[str, Any]]], None] = lambda *_: None
        self.take_ended: Callable[[str], list[str]] = lambda _: []
        self.errors: dict[int, tuple[BaseException, str, str]] = {}
        """The id of an exception -> itself, and namespace and task of the innermost that raised it."""
        self._run, self._thread, self._committer = run, thread, committer
        self._loop = asyncio.get_running_loop()
        self._lock = threading.RLock()
        self._written: dict[str, list[_Written]] = {}
        """Namespace -> what its tasks have written and no commit holds yet: most of it never has to be encoded."""

    # -- writing

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint of a namespace; returns once it is durable. What the commit raises ends the drive."""
        found = self._put(config, checkpoint, metadata, new_versions)
        mark = self._committer.touch(Reason.STEP)
        if metadata.get("source") == "input" and not _ns(config):
            # Nothing is lost without it: the run has its input. What the first step writes follows mostly at once.
            self._committer.save_soon(HELD)
        else:
            await self._committer.save(mark)
        return found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do the same for a subgraph that a step calls without ``await``. It is durable a moment later.

        It cannot wait: the step may run in the thread of the event loop, which commits.
        """
        found = self._put(config, checkpoint, metadata, new_versions)
        self._loop.call_soon_threadsafe(self._touched, PROMPT)
        return found

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        self._check()
        ns = _ns(config)
        values = checkpoint["channel_values"]
        deltas = delta_channels_in(metadata)
        with self._lock:
            if deltas:
                self.settle()
            before = self._thread.spaces.get(ns)
            known = before.values if before is not None else {}
            changed = [name for name in values if name in new_versions or name not in known]
            fresh = {name: encode(values[name], f"channel {name!r}") for name in changed}
            head: JsonObject = {
                "id": checkpoint["id"],
                "ts": checkpoint["ts"],
                "v": checkpoint["v"],
                "versions": dict(checkpoint["channel_versions"]),
                "seen": encode(checkpoint["versions_seen"], "what each node has seen")[0],
                "updated": checkpoint.get("updated_channels"),
                "metadata": encode(dict(metadata), "the checkpoint's metadata")[0],
                "parent": config["configurable"].get("checkpoint_id") or "",
                "values": list(checkpoint["channel_values"]),
            }
            self._thread.put(ns, head, fresh, deltas)
            if not ns:
                self._thread.given, self._thread.inputs, self._thread.doing = {}, {}, {}
            self._thread.ran = {**self._thread.ran, ns: self.take_ended(ns)}
            self._written[ns] = [one for one in self._written.get(ns, ()) if one.checkpoint >= checkpoint["id"]]
        return _config(self._run, ns, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written. It is durable within 20 ms, unless a checkpoint takes it in before."""
        self._take(config, writes, task_id, task_path)
        if any(channel == ERROR_SOURCE for channel, _ in writes):
            # A handler of the error starts after this.
            await self._committer.save(self._committer.touch(Reason.FAILURE))
        else:
            self._touched(_delay(writes))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do the same from any thread."""
        self._take(config, writes, task_id, task_path)
        self._loop.call_soon_threadsafe(self._touched, _delay(writes))

    def _take(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str) -> None:
        self._check()
        ns = _ns(config)
        with self._lock:
            one = _Written(config["configurable"]["checkpoint_id"], task, path, list(writes))
            self._written.setdefault(ns, []).append(one)
            for channel, value in writes:
                if channel == ERROR and isinstance(value, BaseException):
                    self.errors.setdefault(id(value), (value, ns, task))
        self.on_written(ns, task, one.writes)

    def forget_written(self) -> None:
        """Drop what tasks have written and cannot be stored: the run ends with what is."""
        with self._lock:
            self._written.clear()

    def settle(self) -> None:
        """Store in the thread what tasks have written. ``NotStorable``."""
        with self._lock:
            for ns, written in self._written.items():
                space = self._thread.spaces.get(ns)
                while written and space is not None and written[0].checkpoint <= space.head["id"]:
                    self._store(ns, space, written.pop(0))

    def _store(self, ns: str, space: Space, one: _Written) -> None:
        named = [(name, encode(_kept(value), f"what a step wrote to {name!r}")[0]) for name, value in one.writes]
        if self._thread.write(ns, one.checkpoint, one.task, one.path, named):
            self._count(space, one.task, dict(one.writes))

    def _count(self, space: Space, task: str, writes: Mapping[str, Any]) -> None:
        """Note how many answers a task has, and how many it had when it asked."""
        if RESUME not in writes and INTERRUPT not in writes:
            return
        one = dict(space.writes[task])
        if RESUME in writes:
            one["answered"] = len(writes[RESUME]) if isinstance(writes[RESUME], list) else 1
        if INTERRUPT in writes:
            one["asked"] = one.get("answered", 0)
        space.writes[task] = one

    def _touched(self, delay: float) -> None:
        self._committer.touch(Reason.PAUSE if delay == PROMPT else Reason.STEP)
        self._committer.save_soon(delay)

    def _check(self) -> None:
        if self._committer.broken is not None:
            raise self._committer.broken

    # -- reading

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the newest checkpoint of a namespace with what was written since, None if it has none."""
        return self.get_tuple(config)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the same."""
        ns = _ns(config)
        with self._lock:
            self.settle()
            space = self._thread.spaces.get(ns)
            wanted = config["configurable"].get("checkpoint_id")
            if space is None or (wanted and wanted != space.head["id"]):
                return None
            head = space.head
            checkpoint = Checkpoint(
                v=head["v"],
                id=head["id"],
                ts=head["ts"],
                channel_values={name: decode(stored) for name, stored in space.values.items()},
                channel_versions=dict(head["versions"]),
                versions_seen=decode(head["seen"]),
                updated_channels=head["updated"],
            )
            pending = [(task, channel, decode(stored)) for task, channel, stored in space.pending()]
            parent = _config(self._run, ns, head["parent"]) if head["parent"] else None
            metadata: Any = decode(head["metadata"])
        return CheckpointTuple(_config(self._run, ns, head["id"]), checkpoint, metadata, parent, pending)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the newest checkpoint of the namespace: earlier ones are checkpoints of the run."""
        for found in self.list(config, filter=filter, before=before, limit=limit):
            yield found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the same."""
        found = self.get_tuple(config) if config is not None else None
        if found is not None and before is None and limit != 0:
            yield found

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what rebuilds channels whose value the newest checkpoint does not hold."""
        return self.get_delta_channel_history(config=config, channels=channels)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the same."""
        found: dict[str, DeltaChannelHistory] = {}
        with self._lock:
            space = self._thread.spaces.get(_ns(config))
            for name in channels:
                kept: JsonObject = (space.deltas.get(name) if space is not None else None) or {"writes": []}
                history = DeltaChannelHistory(writes=[(task, name, decode(one)) for task, one in kept["writes"]])
                if "seed" in kept:
                    history["seed"] = decode(kept["seed"])
                found[name] = history
        return found


def _kept(value: Any) -> Any:
    """Return what is stored of a written value: of an exception its ``repr``, as LangGraph does, but cut."""
    return f"{type(value).__name__}({message_of(value)!r})" if isinstance(value, BaseException) else value


def _delay(writes: Sequence[tuple[str, Any]]) -> float:
    return PROMPT if any(channel in CONTROL for channel, _ in writes) else HELD


def _ns(config: RunnableConfig) -> str:
    return str(config["configurable"].get("checkpoint_ns") or "")


def _config(run: str, ns: str, checkpoint: str) -> RunnableConfig:
    return {"configurable": {"thread_id": run, "checkpoint_ns": ns, "checkpoint_id": checkpoint}}

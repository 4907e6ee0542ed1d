"""Checkpoints as a graph would hand them over, and what is stored of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar
from uuid import uuid4

from django.db import connections
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from checkpoints.database.storage import write
from checkpoints.langgraph.models import LangGraphThread
from checkpoints.models import Chunk

T = TypeVar("T")
VERSIONS = count(1)
BIG = {f"key {i:03d}": f"{i:03d} of " * 40 for i in range(200)}
"""A value of 60 KB."""


def thread(name: str | None = None, **more: Any) -> Any:
    """Return the config of a thread, by default of a new one."""
    return {"configurable": {"thread_id": name or str(uuid4()), "checkpoint_ns": "", **more}}


def checkpoint(**values: Any) -> Any:
    """Return a checkpoint with these values, all of them new."""
    version = next(VERSIONS)
    own = {"id": str(uuid6(clock_seq=version % 16000)), "channel_versions": dict.fromkeys(values, version)}
    return {**empty_checkpoint(), **own, "channel_values": values}


async def put(saver: Any, config: Any, one: Any = None, **metadata: Any) -> Any:
    """Store a checkpoint after the one that ``config`` names, and return its config."""
    one = checkpoint(n=next(VERSIONS)) if one is None else one
    return await saver.aput(
        config, one, {"source": "loop", "step": 1, "parents": {}, **metadata}, one["channel_versions"]
    )


async def chain(saver: Any, config: Any, length: int, **values: Any) -> list[Any]:
    """Store checkpoints one after the other, and return their configs."""
    found = [config]
    for step in range(length):
        found.append(await put(saver, found[-1], checkpoint(step=step, **values), step=step))
    return found[1:]


async def in_orm(alias: str, act: Callable[[], T]) -> T:
    """Do it in a transaction of Django's."""

    def run() -> T:
        try:
            with write(alias):
                return act()
        finally:
            connections[alias].close()

    return await asyncio.to_thread(run)


async def chunks_of(alias: str, config: Any) -> int:
    name = config["configurable"]["thread_id"]

    def look() -> int:
        family = LangGraphThread.objects.using(alias).get(name=name).family
        return Chunk.objects.using(alias).filter(family=family).count()

    return await in_orm(alias, look)


async def all_chunks(alias: str) -> int:
    return await in_orm(alias, Chunk.objects.using(alias).count)

"""Durable steps per second of LangGraph on SQLite with a big state, as JSON. Stands alone: run by a Python that has it.

    echo STEPS | python peer_langgraph_state.py

A dict of 200 keys of 5 KB; each step replaces 1 KB of one key. ``default`` keeps the dict in an ordinary channel with
a reducer, ``delta`` in its opt-in DeltaChannel. The better of the synchronous and the asynchronous saver counts.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import aiosqlite
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

PRAGMAS = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL")
KEYS = 200


def merge(state: dict[str, str], change: dict[str, str]) -> dict[str, str]:
    """Return the state with a change."""
    return {**(state or {}), **change}


def merge_all(state: dict[str, str], changes: list[dict[str, str]]) -> dict[str, str]:
    """Return the state with changes."""
    merged = dict(state or {})
    for change in changes:
        merged.update(change)
    return merged


class Default(TypedDict):
    """The dict in an ordinary channel."""

    i: int
    docs: Annotated[dict[str, str], merge]


class Delta(TypedDict):
    """The dict in a delta channel."""

    i: int
    docs: Annotated[dict[str, str], DeltaChannel(merge_all)]


def first() -> dict[str, Any]:
    """Return the run's input: the whole state."""
    return {"i": 0, "docs": {f"key {k:03d}": f"{k:04d} " * 1000 for k in range(KEYS)}}


def step(state: Any) -> dict[str, Any]:
    """Return what one step changes."""
    i = state["i"] + 1
    key = f"key {i * 7 % KEYS:03d}"
    return {"i": i, "docs": {key: f"{i:08d}" + "x" * 992 + state["docs"][key][1000:]}}


async def step_async(state: Any) -> dict[str, Any]:
    """Return what one step changes."""
    return step(state)


def build(kind: Any, function: Any, steps: int, saver: Any) -> Any:
    """Return ``steps`` nodes in a row."""
    graph = StateGraph(kind)
    before = START
    for place in range(steps):
        graph.add_node(f"s{place:03d}", function)
        graph.add_edge(before, f"s{place:03d}")
        before = f"s{place:03d}"
    graph.add_edge(before, END)
    return graph.compile(checkpointer=saver)


def config(steps: int) -> Any:
    """Return the configuration of the run."""
    return {"configurable": {"thread_id": "run"}, "recursion_limit": steps + 10}


def rate_sync(kind: Any, path: Path, steps: int) -> float:
    """Steps per second of the synchronous saver."""
    connection = sqlite3.connect(path, check_same_thread=False)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    saver = SqliteSaver(connection)
    saver.setup()
    app = build(kind, step, steps, saver)
    started = time.perf_counter()
    app.invoke(first(), config(steps), durability="sync")
    elapsed = time.perf_counter() - started
    connection.close()
    return steps / elapsed


async def rate_async(kind: Any, path: Path, steps: int) -> float:
    """Steps per second of the asynchronous saver."""
    async with aiosqlite.connect(path) as connection:
        for pragma in PRAGMAS:
            await connection.execute(pragma)
        saver = AsyncSqliteSaver(connection)
        await saver.setup()
        app = build(kind, step_async, steps, saver)
        started = time.perf_counter()
        await app.ainvoke(first(), config(steps), durability="sync")
        return steps / (time.perf_counter() - started)


def rates(steps: int) -> dict[str, float]:
    """Return channel -> steps per second, each on a database of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in (("default", Default), ("delta", Delta)):
            sync = rate_sync(kind, Path(folder, f"{name}-sync.sqlite3"), steps)
            found[name] = max(sync, asyncio.run(rate_async(kind, Path(folder, f"{name}-async.sqlite3"), steps)))
    return found


def main() -> None:
    """Answer each line ``STEPS`` with ``{"default": steps/s, "delta": steps/s}``."""
    for line in sys.stdin:
        print(json.dumps(rates(int(line))), flush=True)


if __name__ == "__main__":
    main()

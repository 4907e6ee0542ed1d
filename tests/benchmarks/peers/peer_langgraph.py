"""Durable steps per second of LangGraph's SQLite savers, as JSON. Stands alone: for any Python that has them.

    echo STEPS RUNS | python peer_langgraph.py

One step is one superstep with ``durability="sync"``: its checkpoint is on disk before the next one begins.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

PRAGMAS = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL")


class State(TypedDict):
    """What a step reads and replaces: a counter and 1 KB of text."""

    i: int
    blob: str


FIRST: State = {"i": 0, "blob": ""}


def next_state(state: State) -> State:
    """Return the state one step on."""
    i = state["i"] + 1
    return {"i": i, "blob": f"{i:08d}" + "x" * 1000}


async def next_state_async(state: State) -> State:
    """Return the state one step on."""
    return next_state(state)


def build_chain(step: Any, steps: int, saver: Any) -> Any:
    """Return ``steps`` nodes in a row: the same task as wfdash's."""
    graph = StateGraph(State)
    before = START
    for place in range(steps):
        name = f"s{place:03d}"
        graph.add_node(name, step)
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph.compile(checkpointer=saver)


class Started:
    """When a measurement began, by the clock and by this process's processor time."""

    def __init__(self) -> None:
        self.clock, self.processor = time.perf_counter(), time.process_time()

    def figures(self, steps: int) -> list[float]:
        """Return steps per second, and microseconds of processor time per step."""
        clock, processor = time.perf_counter() - self.clock, time.process_time() - self.processor
        return [steps / clock, processor / steps * 1e6]


def config(run: int, steps: int) -> Any:
    """Return the configuration of one run."""
    return {"configurable": {"thread_id": f"run-{run}"}, "recursion_limit": steps + 10}


def rate_sync(path: Path, steps: int, runs: int) -> list[float]:
    """Figures of the synchronous saver, all runs at once in threads (3 runs in turn for one)."""
    connection = sqlite3.connect(path, check_same_thread=False)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    saver = SqliteSaver(connection)
    saver.setup()
    app = build_chain(next_state, steps, saver)
    started = Started()
    count = max(runs, 3)
    with ThreadPoolExecutor(runs) as pool:
        list(pool.map(lambda run: app.invoke(FIRST, config(run, steps), durability="sync"), range(count)))
    found = started.figures(steps * count)
    connection.close()
    return found


async def rate_async(path: Path, steps: int, runs: int) -> list[float]:
    """Figures of the asynchronous saver, all runs at once."""
    async with aiosqlite.connect(path) as connection:
        for pragma in PRAGMAS:
            await connection.execute(pragma)
        saver = AsyncSqliteSaver(connection)
        await saver.setup()
        app = build_chain(next_state_async, steps, saver)
        started = Started()
        calls = [app.ainvoke(FIRST, config(run, steps), durability="sync") for run in range(runs)]
        await asyncio.gather(*calls)
        return started.figures(steps * runs)


def rates(steps: int, runs: int) -> dict[str, list[float]]:
    """Return saver -> its figures, each on a database of its own."""
    with tempfile.TemporaryDirectory() as folder:
        sync_rate = rate_sync(Path(folder, "sync.sqlite3"), steps, runs)
        async_rate = asyncio.run(rate_async(Path(folder, "async.sqlite3"), steps, runs))
    return {"sync": sync_rate, "async": async_rate}


def main() -> None:
    """Answer each line ``STEPS RUNS`` with ``{"sync": figures, "async": figures}``."""
    for line in sys.stdin:
        print(json.dumps(rates(*map(int, line.split()))), flush=True)


if __name__ == "__main__":
    main()

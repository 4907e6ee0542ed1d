"""Graphs of LangGraph on ``DjangoSaver`` against the same graphs on LangGraph's own SQLite savers, in turns.

``small``: 1 KB of state. ``hot``: one channel of 1 MB, of which each step changes 1 KB. ``cold``: 1 MB that no step
changes beside 1 KB that each does. Also: bytes on the disk per step of 1 MB, the newest of 10,000 checkpoints, and the
longest pause of an event loop that runs a graph while 4,000 checkpoints are listed.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import END, START, StateGraph

from tests.benchmarks.peers.peer import Figures
from tests.benchmarks.world import Report, fresh_django, median

STEPS = 100
ROUNDS = 3
KEYS = 200
MANY = 10_000
LISTED = 4_000
PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"
BARS = {"small": 1.0, "hot": 3.0, "cold": 3.0}
PROCESSOR = 1.0
"""Of their processor time of a step, all threads of this process."""
DISK = 30 * 1024
"""Bytes on the disk per step of 1 MB of state."""


class Small(TypedDict):
    """1 KB."""

    i: int
    blob: str


class Hot(TypedDict):
    """1 MB in one channel."""

    i: int
    docs: Annotated[dict[str, str], lambda old, new: {**(old or {}), **new}]


class Cold(TypedDict):
    """1 MB that stays as it is."""

    i: int
    blob: str
    docs: dict[str, str]


DOCS = {f"key {k:03d}": f"{k:04d} " * 1000 for k in range(KEYS)}
FIRST: dict[str, Any] = {
    "small": {"i": 0, "blob": ""},
    "hot": {"i": 0, "docs": DOCS},
    "cold": {"i": 0, "blob": "", "docs": DOCS},
}
KINDS: dict[str, Any] = {"small": Small, "hot": Hot, "cold": Cold}


def change_blob(state: Any) -> dict[str, Any]:
    """Return a new kilobyte."""
    return {"i": state["i"] + 1, "blob": f"{state['i']:08d}" + "x" * 992}


def change_docs(state: Any) -> dict[str, Any]:
    """Return one document with a new kilobyte in it."""
    i = state["i"] + 1
    key = f"key {i * 7 % KEYS:03d}"
    return {"i": i, "docs": {key: f"{i:08d}" + "x" * 992 + state["docs"][key][1000:]}}


def build(kind: str, saver: Any) -> Any:
    """Return a graph of ``STEPS`` nodes in a row."""
    graph, before = StateGraph(KINDS[kind]), START
    step = change_docs if kind == "hot" else change_blob
    for place in range(STEPS):
        graph.add_node(f"s{place:03d}", step)
        graph.add_edge(before, f"s{place:03d}")
        before = f"s{place:03d}"
    graph.add_edge(before, END)
    return graph.compile(checkpointer=saver)


def config() -> Any:
    """Return the config of a new thread."""
    return {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": STEPS + 10}


async def measure(kind: str, saver: Any, *, in_thread: bool) -> Figures:
    """Return the figures of a graph."""
    graph, began, used = build(kind, saver), time.perf_counter(), time.process_time()
    if in_thread:
        graph.invoke(FIRST[kind], config(), durability="sync")
    else:
        await graph.ainvoke(FIRST[kind], config(), durability="sync")
    used = (time.process_time() - used) / STEPS * 1e6
    return Figures(rate=STEPS / (time.perf_counter() - began), us=used)


@dataclass(frozen=True, kw_only=True)
class Theirs:
    """LangGraph's own savers of a database, and how many times as fast ours is to be."""

    bars: dict[str, float]
    blocking: Callable[[], AbstractContextManager[Any]]
    awaited: Callable[[], AbstractAsyncContextManager[Any]]


def of_sqlite(folder: Path) -> Theirs:
    """Return LangGraph's savers of a file; each time a new one."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    names = count()

    @contextmanager
    def blocking() -> Iterator[Any]:
        connection = sqlite3.connect(folder / f"{next(names)}.sqlite3", check_same_thread=False)
        connection.executescript(PRAGMAS)
        yield SqliteSaver(connection)
        connection.close()

    @asynccontextmanager
    async def awaited() -> AsyncIterator[Any]:
        async with AsyncSqliteSaver.from_conn_string(str(folder / f"{next(names)}.sqlite3")) as saver:
            await saver.setup()
            await saver.conn.executescript(PRAGMAS)
            yield saver

    return Theirs(bars=BARS, blocking=blocking, awaited=awaited)


async def compare(theirs: Theirs, report: Report) -> None:
    """Add the ratios in a thread and in an event loop."""
    from checkpoints.langgraph import DjangoSaver

    async with DjangoSaver() as ours:
        for in_thread, (kind, bar) in product((True, False), theirs.bars.items()):
            rates = []
            for place in range(ROUNDS + 1):
                async with AsyncExitStack() as stack:
                    other = stack.enter_context(theirs.blocking()) if in_thread else None
                    other = other or await stack.enter_async_context(theirs.awaited())
                    found = [await measure(kind, saver, in_thread=in_thread) for saver in (ours, other)]
                    rates += [found] * (place > 0)
            tell(report, f"{kind}, in {'a thread' if in_thread else 'an event loop'}", rates, bar)


def tell(report: Report, what: str, rates: list[list[Figures]], bar: float) -> None:
    """Add a ratio of medians, and that of the least processor times."""
    ours, theirs = (median([one.rate for one in some]) for some in zip(*rates, strict=True))
    report.at_least(f"{what} ({ours:.0f} / {theirs:.0f} steps/s)", ours / theirs, bar)
    ours, theirs = (min(one.us or 0.0 for one in some) for some in zip(*rates, strict=True))
    report.at_most(f"{what}: processor time ({ours:.0f} / {theirs:.0f} us)", ours / theirs, PROCESSOR, "x")


def fill_disk(report: Report, size_of: Callable[[], int]) -> None:
    """Add the bytes that a step of 1 MB of state takes, the first filling left out."""
    from checkpoints.langgraph import DjangoSaver

    with DjangoSaver() as saver:
        for kind in ("hot", "cold"):
            graph, thread = build(kind, saver), config()
            before = size_of()
            graph.invoke(FIRST[kind], thread, durability="sync")
            whole = size_of() - before
            report.at_most(f"{kind}: bytes per step, filling included", whole / STEPS, DISK + 1_100_000 / STEPS, "B")


async def fill_many(report: Report) -> None:
    """Add the time of the newest of many checkpoints, and the longest pause while others are listed."""
    from checkpoints.langgraph import DjangoSaver

    async with DjangoSaver() as saver:
        thread = await filled(saver, MANY)
        times = []
        for _ in range(200):
            began = time.perf_counter()
            assert await saver.aget_tuple(thread) is not None
            times.append(time.perf_counter() - began)
        report.at_most(f"newest of {MANY} checkpoints", median(times) * 1000, 2.0)
        report.at_most(f"pause while {LISTED} are listed", await longest_pause(saver, thread) * 1000, 50.0)


async def filled(saver: Any, checkpoints: int) -> Any:
    """Return the config of a thread with so many checkpoints of 1 KB."""
    thread: Any = {"configurable": {"thread_id": str(uuid4()), "checkpoint_ns": ""}}
    last = thread
    for n in range(checkpoints):
        one = {**empty_checkpoint(), "id": str(uuid6(clock_seq=n % 16000)), "channel_values": {"blob": f"{n} " * 200}}
        one["channel_versions"] = {"blob": n + 1}
        last = await saver.aput(last, one, {"source": "loop", "step": n}, {"blob": n + 1})
    return thread


async def longest_pause(saver: Any, thread: Any) -> float:
    """Return the longest time in which the event loop did nothing else, while a graph runs beside a list."""
    longest, done = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not done:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - began - 0.001)

    # As a server does once it has started: the collector of garbage looks only through what came since.
    gc.collect()
    gc.freeze()
    graph = build("small", saver)
    watching = asyncio.create_task(watch())
    running = asyncio.create_task(graph.ainvoke(FIRST["small"], config()))
    found = [one async for one in saver.alist(thread, limit=LISTED)]
    await running
    done = True
    await watching
    assert len(found) == LISTED
    return longest


def main() -> int:
    """Measure and print."""
    report = Report("LangGraph on DjangoSaver / on its own saver, SQLite")
    with fresh_django() as database, tempfile.TemporaryDirectory() as folder:
        theirs = of_sqlite(Path(folder))
        asyncio.run(compare(theirs, report))
        fill_disk(report, lambda: size_of_file(database))
        asyncio.run(fill_many(report))
    return report.show()


def size_of_file(database: Path) -> int:
    """Return the bytes of an SQLite database, its log put into it."""
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return database.stat().st_size


if __name__ == "__main__":
    sys.exit(main())

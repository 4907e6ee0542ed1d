"""A graph of LangGraph under the dashboard's engine against the same graph with LangGraph's own SQLite saver.

Steps per second, processor time and disk, in turns on the same machine: 1 KB of state, 1 MB of which 1 KB changes at
each step, and 1,000 steps with 1 MB. Both wait for the disk after each step.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from checkpoints.file import FileStorage
from checkpoints.ids import new_run_id
from checkpoints.recorder import BoundRecorder
from checkpoints.records import Reason
from tests.benchmarks.world import Report, median
from wfdash.contract import Start
from wfdash.engines.langgraph import LangGraphEngine
from wfdash.engines.serving import Served

ROUNDS = 5
STEPS = 200
LONG = 1_000
SPEED, PROCESSOR, SPEED_LARGE, DISK = 0.8, 1.3, 1.0, 30_000
"""Bars: of their steps per second and of their processor time at 1 KB, of their steps per second at 1 MB, and bytes on
disk per step.
"""


class State(TypedDict, total=False):
    """What each step reads and replaces, and what stays."""

    n: int
    hot: str
    cold: list[str]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run: seconds, seconds of processor time, and bytes on disk."""

    wall: float
    processor: float
    disk: int


def graph_of(steps: int) -> Any:
    """Return a graph that runs one node so many times."""

    async def work(state: State) -> State:
        return {"n": state["n"] + 1, "hot": f"{state['n']:08d}" * 128}

    builder = StateGraph(State)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: END if state["n"] >= steps else "work", ["work", END])
    return builder.compile()


def first(large: bool) -> State:
    """Return the input: 1 KB, or 1 MB."""
    cold = [f"{number:08d}" * 125 for number in range(1_000)] if large else []
    return {"n": 0, "hot": "x" * 1024, "cold": cold}


async def run_theirs(steps: int, large: bool, folder: Path) -> Measured:
    """Run it with LangGraph's saver."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "theirs.sqlite3")) as saver:
        await saver.setup()
        await saver.conn.execute("PRAGMA synchronous=FULL")
        graph = graph_of(steps).copy({"checkpointer": saver})
        config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}
        return await timed(graph.ainvoke(first(large), config, durability="sync"), folder)


async def run_ours(steps: int, large: bool, folder: Path) -> Measured:
    """Run it as a run of the dashboard."""
    storage, run, engine = FileStorage(folder / "ours.sqlite3"), new_run_id(), LangGraphEngine()
    served = Served(target=graph_of(steps), variable="graph", config={"recursion_limit": steps + 10})
    engine.describe(served)
    await storage.get_latest(run)
    found = await timed(engine.drive(served, Start(run=run, message=first(large)), BoundRecorder(storage, run)), folder)
    assert (await storage.list_checkpoints(run, limit=1))[0].reason is Reason.END
    await storage.aclose()
    return found


async def timed(work: Awaitable[object], folder: Path) -> Measured:
    """Await it, with everything open already."""
    wall, processor = time.perf_counter(), time.process_time()
    await work
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return Measured(wall=wall, processor=processor, disk=sum(file.stat().st_size for file in folder.iterdir()))


def measure(run: Callable[[int, bool, Path], Coroutine[Any, Any, Measured]], steps: int, large: bool) -> Measured:
    """Run it once in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(run(steps, large, Path(name)))


def compare(report: Report, large: bool) -> None:
    """Add how many of their steps per second ours makes, and how much of their processor time it takes."""
    runs = (run_theirs, run_ours)
    rounds = []
    for number in range(ROUNDS):
        found = {run: measure(run, STEPS, large) for run in (runs if number % 2 else runs[::-1])}
        rounds.append((found[run_theirs], found[run_ours]))
    size = "1 MB" if large else "1 KB"
    speed = median([theirs.wall / ours.wall for theirs, ours in rounds])
    processor = median([ours.processor / theirs.processor for theirs, ours in rounds])
    report.at_least(f"{size}: steps/s / LangGraph's", speed, SPEED_LARGE if large else SPEED)
    if large:
        report.note(f"{size}: processor time / LangGraph's", f"{processor:.2f} x")
    else:
        report.at_most(f"{size}: processor time / LangGraph's", processor, PROCESSOR, "x")
    report.note(f"{size}: steps/s", f"{median([STEPS / ours.wall for _, ours in rounds]):.0f}")
    report.note(f"{size}: MB on disk, and LangGraph's", f"{rounds[0][1].disk / 1e6:.1f}, {rounds[0][0].disk / 1e6:.1f}")


def main() -> int:
    """Print figures and whether each bar is met; 1 if one is missed."""
    report = Report(f"Graphs of LangGraph: {STEPS} steps, medians of {ROUNDS} rounds in turns")
    compare(report, large=False)
    compare(report, large=True)
    each = measure(run_ours, LONG, True).disk / LONG
    report.at_most(f"{LONG} steps with 1 MB: kB on disk a step", each / 1000, DISK / 1000, "kB")
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

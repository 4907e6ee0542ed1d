"""A chain of durable steps with 1 MB of state (200 keys of 5 KB), of which each step changes 1 KB.

Measured against the same chain with 1 KB of state, against the floor (bare ``sqlite3`` that commits as many bytes in as
many rows) and, where it is installed, against LangGraph's SQLite savers with an ordinary channel and with its
DeltaChannel. Also: bytes written per step, and their growth with the number of steps.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.peer import Peer
from tests.benchmarks.world import Report, fresh_django, median
from wfdash.workflow.runtime.recorders import OwnRecorder

STEPS = 100
ROUNDS = 5
KEYS = 200
CHUNKS = "SELECT coalesce(sum(length(data)),0), count(*) FROM checkpoints_chunk WHERE family=?"
BODIES = "SELECT coalesce(sum(length(body)),0) FROM checkpoints_checkpoint WHERE run_id=?"


def build_chain(steps: int, *, big: bool) -> Any:
    """Return a workflow of one step that fills the state and ``steps`` that change 1 KB of it."""
    from wfdash.workflow import Context, Workflow

    chain = Workflow("bench_state", title="State")

    async def fill(i: int, ctx: Context) -> int:
        for key in range(KEYS if big else 0):
            ctx.state[f"key {key:03d}"] = f"{key:04d} " * 1000
        return i

    async def change(i: int, ctx: Context) -> int:
        key = f"key {i * 7 % KEYS:03d}" if big else "blob"
        rest = ctx.state[key][1000:] if big else ""
        ctx.state[key] = f"{i:08d}" + "x" * 992 + rest
        return i + 1

    step = chain.step(name="fill", start=True)(fill)
    for place in range(steps):
        step = chain.step(name=f"s{place:03d}", after=step)(change)
    return chain


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a run of so many steps left in the database."""

    steps: int
    bytes: int
    rows: int


async def run_chain(chain: Any, storage: Any) -> tuple[float, str]:
    """Return the seconds of one run, and its id."""
    started = time.perf_counter()
    outcome = await chain.run(message=0, storage=storage)
    return time.perf_counter() - started, str(outcome.checkpoint.run)


class Stopwatch(OwnRecorder):
    """A recorder that notes when each commit was durable."""

    def __init__(self, storage: Any) -> None:
        self.moments: list[float] = []
        self._storage = storage

    async def commit(self, commit: Any) -> None:
        """Commit, then look at the clock."""
        await self._storage.commit(commit)
        self.moments.append(time.perf_counter())


async def seconds_of_steps(chain: Any, storage: Any) -> float:
    """Return the seconds of the steps that follow the filling of the state."""
    watch = Stopwatch(storage)
    await chain.run(message=0, storage=watch)
    return watch.moments[STEPS] - watch.moments[1]


def read_written(database: Path, run: str, steps: int) -> Written:
    """Return the bytes of content and the number of chunks of a run."""
    connection = sqlite3.connect(database)
    size, rows = connection.execute(CHUNKS, (run,)).fetchone()
    (bodies,) = connection.execute(BODIES, (run,)).fetchone()
    connection.close()
    return Written(steps=steps, bytes=size + bodies, rows=rows)


def floor_seconds(path: Path, written: Written) -> float:
    """Return the seconds in which bare ``sqlite3`` commits a row of the same bytes per step."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE content (id INTEGER PRIMARY KEY, data BLOB)")
    data = os.urandom(written.bytes // written.steps)
    started = time.perf_counter()
    for _ in range(written.steps):
        connection.execute("INSERT INTO content (data) VALUES (?)", (data,))
    elapsed = time.perf_counter() - started
    connection.close()
    return elapsed


@dataclass(kw_only=True)
class Round:
    """Seconds, measured one right after the other."""

    small: float
    big: float
    run: float
    """All of a run, the first filling of its state included; as the peers are measured."""
    floor: float
    peers: dict[str, float]


async def measure(database: Path, folder: Path, peer: Peer, report: Report) -> None:
    """Measure in turns and fill the report."""
    from checkpoints.database.storage import DatabaseStorage

    storage, rounds = DatabaseStorage(), list[Round]()
    small, big, short = build_chain(STEPS, big=False), build_chain(STEPS, big=True), build_chain(1, big=True)
    long = build_chain(4 * STEPS, big=True)
    try:
        for chain in (small, big, short, long):
            await run_chain(chain, storage)
        _, first = await run_chain(short, storage)
        _, all_ = await run_chain(big, storage)
        _, more = await run_chain(long, storage)
        base, whole = read_written(database, first, 1), read_written(database, all_, STEPS)
        longer = read_written(database, more, 4 * STEPS)
        steps = Written(steps=STEPS, bytes=whole.bytes - base.bytes, rows=whole.rows - base.rows)
        for place in range(ROUNDS):
            one, other = await seconds_of_steps(small, storage), await seconds_of_steps(big, storage)
            whole_run, _ = await run_chain(big, storage)
            floor = floor_seconds(folder / f"{place}.sqlite3", steps)
            rates = {name: found.rate for name, found in peer.figures(STEPS).items()}
            rounds.append(Round(small=one, big=other, run=whole_run, floor=floor, peers=rates))
    finally:
        await storage.aclose()
    fill_bytes(report, steps, longer.bytes - base.bytes)
    fill_rates(report, rounds)


def fill_bytes(report: Report, steps: Written, longer: int) -> None:
    """Add what is written per step."""
    per_step = steps.bytes / (STEPS - 1)
    report.at_most("bytes of content per step", per_step, 3_500, "B")
    report.note("chunks per step", f"{steps.rows / (STEPS - 1):.1f}")
    report.at_most("bytes per step, 400 steps / 100 steps", longer / (4 * STEPS - 1) / per_step, 1.2, "x")


def fill_rates(report: Report, rounds: list[Round]) -> None:
    """Add rates and ratios: medians over rounds."""
    report.note("1 KB of state", f"{STEPS / median([r.small for r in rounds]):.0f} steps/s")
    report.note("1 MB of state", f"{STEPS / median([r.big for r in rounds]):.0f} steps/s")
    report.note("the same, the first filling included", f"{STEPS / median([r.run for r in rounds]):.0f} steps/s")
    report.note("floor: a row of the same bytes a commit", f"{STEPS / median([r.floor for r in rounds]):.0f} commits/s")
    report.at_most("time of 1 MB / time of 1 KB", median([r.big / r.small for r in rounds]), 1.4, "x")
    report.note("wfdash / floor", f"{median([r.floor / r.big for r in rounds]):.2f} x")
    for peer, bar in (("default", 6.0), ("delta", 1.8)):
        found = [(STEPS / r.run) / r.peers[peer] for r in rounds if r.peers]
        if found:
            rate = median([r.peers[peer] for r in rounds if r.peers])
            report.note(f"LangGraph, {peer} channel", f"{rate:.0f} steps/s")
            report.at_least(f"wfdash / LangGraph, {peer} channel", median(found), bar)


def main() -> int:
    """Measure and print."""
    report = Report(f"chain of {STEPS} durable steps, 1 MB of state, 1 KB changed per step")
    with fresh_django() as database, tempfile.TemporaryDirectory() as folder, Peer("langgraph_state") as peer:
        asyncio.run(measure(database, Path(folder), peer, report))
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

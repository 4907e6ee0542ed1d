"""A chain of 100 durable steps with 1 KB of state: one run at a time, and 50 runs at once in one process.

Measured against the floor (the same rows in the same transactions by bare ``sqlite3``) and, where they are installed,
against LangGraph's SQLite savers and DBOS on SQLite. ``--profile`` prints where wfdash's time goes.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkpoints.ids import new_run_id
from tests.benchmarks.floor import Recording, play_grouped, play_one_by_one, read_recording
from tests.benchmarks.world import Report, fresh_django, median

STEPS = 100
AT_ONCE = 50
ROUNDS = 5


def build_chain(steps: int) -> Any:
    """Return a workflow of ``steps`` steps in a row; each replaces 1 KB of state."""
    from wfdash.workflow import Context, Workflow

    chain = Workflow("bench_chain", title="Chain")

    async def advance(i: int, ctx: Context) -> int:
        ctx.state["blob"] = f"{i:08d}" + "x" * 1000
        return i + 1

    step = chain.step(name="s000", start=True)(advance)
    for place in range(1, steps):
        step = chain.step(name=f"s{place:03d}", after=step)(advance)
    return chain


async def measure_one(chain: Any, storage: Any) -> float:
    """Return steps per second of one run."""
    started = time.perf_counter()
    await chain.run(message=0, storage=storage)
    return STEPS / (time.perf_counter() - started)


async def measure_many(chain: Any, storage: Any) -> float:
    """Return steps per second of 50 runs at once."""
    started = time.perf_counter()
    await asyncio.gather(*(chain.run(message=0, storage=storage) for _ in range(AT_ONCE)))
    return STEPS * AT_ONCE / (time.perf_counter() - started)


def peer_rates(runs: int) -> dict[str, float]:
    """Return peer -> steps per second, for those that are installed."""
    python = os.environ.get("WFDASH_BENCH_PYTHON", sys.executable)
    rates: dict[str, float] = {}
    for peer in ("langgraph", "dbos"):
        script = Path(__file__).with_name(f"peer_{peer}.py")
        done = subprocess.run([python, script, str(STEPS), str(runs)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            rates[peer] = max(json.loads(done.stdout.splitlines()[-1]).values())
    return rates


@dataclass(kw_only=True)
class Rates:
    """Steps or commits per second, round by round; ours and the floor's take turns on the same machine."""

    one: list[float] = field(default_factory=list)
    many: list[float] = field(default_factory=list)
    floor_one: list[float] = field(default_factory=list)
    floor_many: list[float] = field(default_factory=list)


async def record(chain: Any, storage: Any, database: Path) -> list[Recording]:
    """Run 50 chains and return what they wrote."""
    runs = [str(new_run_id()) for _ in range(AT_ONCE)]
    await asyncio.gather(*(chain.run(message=0, storage=storage, run_id=run) for run in runs))
    return [read_recording(database, run) for run in runs]


async def measure(database: Path, folder: Path) -> Rates:
    """Measure wfdash and the floor in turns."""
    from checkpoints.orm import DatabaseStorage

    chain, storage, rates = build_chain(STEPS), DatabaseStorage(), Rates()
    try:
        recordings = await record(chain, storage, database)
        for place in range(ROUNDS):
            rates.one.append(await measure_one(chain, storage))
            rates.floor_one.append(play_one_by_one(recordings[0], folder / f"one{place}.sqlite3"))
        for place in range(ROUNDS):
            rates.many.append(await measure_many(chain, storage))
            rates.floor_many.append(play_grouped(recordings, folder / f"many{place}.sqlite3"))
    finally:
        await storage.aclose()
    return rates


def show(rates: Rates) -> int:
    """Print the table with its bars."""
    report = Report(f"chain of {STEPS} durable steps, 1 KB of state")
    report.note("floor, one by one", f"{median(rates.floor_one):.0f} commits/s")
    report.note(f"floor, {AT_ONCE} to a transaction", f"{median(rates.floor_many):.0f} commits/s")
    report.note("wfdash, one run at a time", f"{median(rates.one):.0f} steps/s")
    report.note(f"wfdash, {AT_ONCE} runs at once", f"{median(rates.many):.0f} steps/s")
    report.at_least("one run at a time / floor", median(ratios(rates.one, rates.floor_one)), 0.35)
    report.note(f"{AT_ONCE} runs at once / grouped floor", f"{median(ratios(rates.many, rates.floor_many)):.2f} x")
    for runs, ours, bar in ((1, median(rates.one), 2.5), (AT_ONCE, median(rates.many), 5.0)):
        peers = peer_rates(runs)
        for peer, rate in peers.items():
            report.note(f"{peer}, {runs} at once", f"{rate:.0f} steps/s")
        if peers:
            report.at_least(f"wfdash / better peer, {runs} at once", ours / max(peers.values()), bar)
    return report.show()


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """Return the ratio of each round."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def profiled() -> None:
    """Print where the time goes, one run at a time and 50 at once, in the event loop's thread."""
    from checkpoints.orm import DatabaseStorage

    async def work(measured: Any) -> None:
        storage = DatabaseStorage()
        chain = build_chain(STEPS)
        await measured(chain, storage)
        profile.enable()
        for _ in range(5):
            await measured(chain, storage)
        profile.disable()
        await storage.aclose()

    for measured in (measure_one, measure_many):
        profile = cProfile.Profile()
        asyncio.run(work(measured))
        print(f"\n### {measured.__name__}")
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> int:
    """Measure, or profile."""
    with fresh_django() as database, tempfile.TemporaryDirectory() as folder:
        if "--profile" in sys.argv:
            profiled()
            return 0
        return show(asyncio.run(measure(database, Path(folder))))


if __name__ == "__main__":
    sys.exit(main())

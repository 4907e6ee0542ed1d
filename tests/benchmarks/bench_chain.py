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
from pathlib import Path
from typing import Any

from tests.benchmarks.floor import play_grouped, play_one_by_one, read_recording
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


def floor_rates(database: Path) -> tuple[float, float]:
    """Return commits per second of the floor: one by one, and 50 to a transaction."""
    from checkpoints.models import Run

    runs = list(Run.objects.order_by("created").values_list("id", flat=True)[:AT_ONCE])
    recordings = [read_recording(database, run) for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        single = [play_one_by_one(recordings[0], Path(folder, f"one{i}")) for i in range(ROUNDS)]
        grouped = [play_grouped(recordings, Path(folder, f"group{i}")) for i in range(3)]
    return median(single), median(grouped)


async def measure() -> tuple[float, float]:
    """Return wfdash's steps per second: one run at a time, 50 at once (medians of rounds)."""
    from checkpoints.orm import DatabaseStorage

    chain, storage = build_chain(STEPS), DatabaseStorage()
    await measure_one(chain, storage)
    try:
        many = [await measure_many(chain, storage) for _ in range(3)]
        one = [await measure_one(chain, storage) for _ in range(ROUNDS)]
    finally:
        await storage.aclose()
    return median(one), median(many)


def show(one: float, many: float, floor: tuple[float, float]) -> int:
    """Print the table with its bars."""
    report = Report(f"chain of {STEPS} durable steps, 1 KB of state")
    single, grouped = floor
    report.note("floor, one by one", f"{single:.0f} commits/s")
    report.note(f"floor, {AT_ONCE} to a transaction", f"{grouped:.0f} commits/s")
    report.note("wfdash, one run at a time", f"{one:.0f} steps/s")
    report.note(f"wfdash, {AT_ONCE} runs at once", f"{many:.0f} steps/s ({many / grouped:.2f} of the grouped floor)")
    report.at_least("one run at a time / floor", one / single, 0.35)
    for runs, ours, bar in ((1, one, 2.5), (AT_ONCE, many, 5.0)):
        rates = peer_rates(runs)
        for peer, rate in rates.items():
            report.note(f"{peer}, {runs} at once", f"{rate:.0f} steps/s")
        if rates:
            report.at_least(f"wfdash / better peer, {runs} at once", ours / max(rates.values()), bar)
    return report.show()


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
    with fresh_django() as database:
        if "--profile" in sys.argv:
            profiled()
            return 0
        one, many = asyncio.run(measure())
        return show(one, many, floor_rates(database))


if __name__ == "__main__":
    sys.exit(main())

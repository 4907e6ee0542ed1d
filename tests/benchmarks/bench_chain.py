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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.ids import new_run_id
from tests.benchmarks.floor import Recording, play_grouped, read_recording
from tests.benchmarks.world import Report, fresh_django, median

STEPS = 100
AT_ONCE = 50
ROUNDS = 3
PEERS = ("langgraph", "dbos")


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


def peer_rate(peer: str, runs: int) -> float | None:
    """Return a peer's steps per second with its better saver; None if it is not installed."""
    python = os.environ.get("WFDASH_BENCH_PYTHON", sys.executable)
    script = Path(__file__).with_name(f"peer_{peer}.py")
    done = subprocess.run([python, script, str(STEPS), str(runs)], capture_output=True, text=True, check=False)
    return None if done.returncode else max(json.loads(done.stdout.splitlines()[-1]).values())


@dataclass(frozen=True, kw_only=True)
class Round:
    """Steps or commits per second, measured one right after the other: the machine changes, the round does not."""

    ours: float
    floor: float
    peers: dict[str, float]

    @property
    def better_peer(self) -> float | None:
        """The faster of the peers that are installed."""
        return max(self.peers.values(), default=None)


def measure_peers(runs: int) -> dict[str, float]:
    """Return peer -> steps per second, for those that are installed."""
    return {peer: rate for peer in PEERS if (rate := peer_rate(peer, runs)) is not None}


async def record(chain: Any, storage: Any, database: Path) -> list[Recording]:
    """Run 50 chains and return what they wrote."""
    runs = [str(new_run_id()) for _ in range(AT_ONCE)]
    await asyncio.gather(*(chain.run(message=0, storage=storage, run_id=run) for run in runs))
    return [read_recording(database, run) for run in runs]


async def measure(database: Path, folder: Path) -> dict[int, list[Round]]:
    """Measure wfdash, the floor and the peers in turns; returns runs at once -> rounds."""
    from checkpoints.orm import DatabaseStorage

    chain, storage = build_chain(STEPS), DatabaseStorage()
    rounds: dict[int, list[Round]] = {1: [], AT_ONCE: []}
    try:
        recordings = await record(chain, storage, database)
        for place in range(ROUNDS):
            for runs, found in rounds.items():
                work = measure_one if runs == 1 else measure_many
                ours = median([await work(chain, storage) for _ in range(3)])
                floors = [play_grouped(recordings[:runs], folder / f"{runs}-{place}-{i}.sqlite3") for i in range(3)]
                found.append(Round(ours=ours, floor=median(floors), peers=measure_peers(runs)))
    finally:
        await storage.aclose()
    return rounds


def show(rounds: dict[int, list[Round]]) -> int:
    """Print the table with its bars: medians over rounds, of rates and of ratios."""
    report = Report(f"chain of {STEPS} durable steps, 1 KB of state")
    for runs, (floor_bar, peer_bar) in {1: (0.35, 2.5), AT_ONCE: (None, 5.0)}.items():
        found = rounds[runs]
        ratio = median([one.ours / one.floor for one in found])
        report.note(f"{runs} at once: wfdash", f"{median([one.ours for one in found]):.0f} steps/s")
        report.note(f"{runs} at once: floor", f"{median([one.floor for one in found]):.0f} commits/s")
        for peer in found[0].peers:
            report.note(f"{runs} at once: {peer}", f"{median([one.peers[peer] for one in found]):.0f} steps/s")
        if floor_bar is None:
            report.note(f"{runs} at once: wfdash / floor", f"{ratio:.2f} x")
        else:
            report.at_least(f"{runs} at once: wfdash / floor", ratio, floor_bar)
        if found[0].peers:
            better = median([one.ours / one.better_peer for one in found if one.better_peer])
            report.at_least(f"{runs} at once: wfdash / better peer", better, peer_bar)
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
    with fresh_django() as database, tempfile.TemporaryDirectory() as folder:
        if "--profile" in sys.argv:
            profiled()
            return 0
        return show(asyncio.run(measure(database, Path(folder))))


if __name__ == "__main__":
    sys.exit(main())

"""A chain of 100 durable steps with 1 KB of state: one run at a time, and 50 runs at once in one process.

Measured against the floor (the same rows in the same transactions by bare ``sqlite3``) and, where they are installed,
against LangGraph's SQLite savers, DBOS on SQLite and Agent Framework's files. ``--profile`` prints where time goes.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.ids import new_run_id
from tests.benchmarks.engine.floor import Recording, play_grouped, read_recording
from tests.benchmarks.peers.peer import Peer
from tests.benchmarks.world import Report, fresh_django, median

STEPS = 100
AT_ONCE = 50
ROUNDS = 3
PEERS = ("langgraph", "dbos", "agentframework")


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


@dataclass(frozen=True, kw_only=True)
class Round:
    """Steps or commits per second, measured one right after the other: the machine changes, the round does not."""

    ours: float
    floor: float
    peers: dict[str, float]


def ask(peers: Sequence[Peer], runs: int) -> dict[str, float]:
    """Return peer -> steps per second with its better saver, for those that are installed."""
    found = {peer.name: peer.best(STEPS, runs) for peer in peers}
    return {name: rate for name, rate in found.items() if rate is not None}


async def record(chain: Any, storage: Any, database: Path) -> list[Recording]:
    """Run 50 chains and return what they wrote."""
    runs = [str(new_run_id()) for _ in range(AT_ONCE)]
    await asyncio.gather(*(chain.run(message=0, storage=storage, run_id=run) for run in runs))
    return [read_recording(database, run) for run in runs]


async def measure(database: Path, folder: Path, peers: Sequence[Peer]) -> dict[int, list[Round]]:
    """Measure wfdash, the floor and the peers in turns; returns runs at once -> rounds."""
    from checkpoints.database.storage import DatabaseStorage

    chain, storage = build_chain(STEPS), DatabaseStorage()
    rounds: dict[int, list[Round]] = {1: [], AT_ONCE: []}
    try:
        recordings = await record(chain, storage, database)
        for place in range(ROUNDS):
            for runs, found in rounds.items():
                work = measure_one if runs == 1 else measure_many
                ours = median([await work(chain, storage) for _ in range(3)])
                floors = [play_grouped(recordings[:runs], folder / f"{runs}-{place}-{i}.sqlite3") for i in range(3)]
                found.append(Round(ours=ours, floor=median(floors), peers=ask(peers, runs)))
    finally:
        await storage.aclose()
    return rounds


def show(title: str, rounds: dict[int, list[Round]], bars: dict[int, float]) -> int:
    """Print the table with its bars against LangGraph: medians over rounds, of rates and of ratios."""
    report = Report(title)
    for runs, bar in bars.items():
        found = rounds[runs]
        report.note(f"{runs} at once: wfdash", f"{median([one.ours for one in found]):.0f} steps/s")
        report.note(f"{runs} at once: floor", f"{median([one.floor for one in found]):.0f} commits/s")
        report.note(f"{runs} at once: wfdash / floor", f"{median([one.ours / one.floor for one in found]):.2f} x")
        for peer in found[0].peers:
            ratio = median([one.ours / one.peers[peer] for one in found])
            report.note(f"{runs} at once: {peer}", f"{median([one.peers[peer] for one in found]):.0f} steps/s")
            if peer.startswith("langgraph"):
                report.at_least(f"{runs} at once: wfdash / {peer}", ratio, bar)
            else:
                report.note(f"{runs} at once: wfdash / {peer}", f"{ratio:.2f} x")
    return report.show()


def profiled() -> None:
    """Print where the time goes, one run at a time and 50 at once, in the event loop's thread."""
    from checkpoints.database.storage import DatabaseStorage

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
    with fresh_django() as database, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if "--profile" in sys.argv:
            profiled()
            return 0
        peers = [stack.enter_context(Peer(name)) for name in PEERS]
        rounds = asyncio.run(measure(database, Path(folder), peers))
    return show(f"chain of {STEPS} durable steps, 1 KB of state, SQLite", rounds, {1: 2.5, AT_ONCE: 5.0})


if __name__ == "__main__":
    sys.exit(main())

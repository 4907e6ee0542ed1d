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
from tests.benchmarks.peers.peer import Figures, Peer
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


async def measure_runs(chain: Any, storage: Any, steps: int, runs: int) -> Figures:
    """Return the figures of so many runs at once, of so many steps each; processor time is that of all threads."""
    clock, processor = time.perf_counter(), time.process_time()
    await asyncio.gather(*(chain.run(message=0, storage=storage) for _ in range(runs)))
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    return Figures(rate=steps * runs / clock, us=processor / (steps * runs) * 1e6)


def middle(found: Sequence[Figures]) -> Figures:
    """Return the median rate and the median processor time."""
    return Figures(rate=median([one.rate for one in found]), us=median([one.us or 0.0 for one in found]))


@dataclass(frozen=True, kw_only=True)
class Round:
    """Figures and the floor's commits per second, one right after the other: the machine changes, a round does not."""

    ours: Figures
    floor: float
    peers: dict[str, Figures]


def ask(peers: Sequence[Peer], steps: int, runs: int) -> dict[str, Figures]:
    """Return peer -> the figures of its better saver, for those that are installed."""
    found = {peer.name: peer.best(steps, runs) for peer in peers}
    return {name: figures for name, figures in found.items() if figures is not None}


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
                ours = middle([await measure_runs(chain, storage, STEPS, runs) for _ in range(3)])
                floors = [play_grouped(recordings[:runs], folder / f"{runs}-{place}-{i}.sqlite3") for i in range(3)]
                found.append(Round(ours=ours, floor=median(floors), peers=ask(peers, STEPS, runs)))
    finally:
        await storage.aclose()
    return rounds


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What is asked of us against LangGraph, in steps and processor time, and of the floor's commits."""

    rate: float
    processor: float | None = None
    floor: float = 0.0


def show(title: str, rounds: dict[int, list[Round]], bars: dict[int, Bar]) -> int:
    """Print the table with its bars against LangGraph: medians over rounds, of figures and of ratios."""
    report = Report(title)
    for runs, bar in bars.items():
        found, ours = rounds[runs], middle([one.ours for one in rounds[runs]])
        report.note(f"{runs} at once: wfdash", f"{ours.rate:.0f} steps/s, {ours.us:.0f} us")
        report.note(f"{runs} at once: floor", f"{median([one.floor for one in found]):.0f} commits/s")
        report.at_least(f"{runs} at once: wfdash / floor", median([x.ours.rate / x.floor for x in found]), bar.floor)
        for peer in found[0].peers:
            compare(report, f"{runs} at once", peer, found, bar)
    return report.show()


def compare(report: Report, what: str, peer: str, rounds: Sequence[Round], bar: Bar) -> None:
    """Add one peer's figures, and ours as a ratio of them."""
    theirs = [one.peers[peer] for one in rounds]
    ratio = median([one.ours.rate / one.peers[peer].rate for one in rounds])
    report.note(f"{what}: {peer}", f"{median([one.rate for one in theirs]):.0f} steps/s")
    if not peer.startswith("langgraph"):
        report.note(f"{what}: wfdash / {peer}", f"{ratio:.2f} x")
        return
    report.at_least(f"{what}: wfdash / {peer}", ratio, bar.rate)
    times = [(one.ours.us or 0.0) / one.peers[peer].us for one in rounds if one.peers[peer].us]
    report.note(f"{what}: processor time, {peer}", f"{median([one.us or 0.0 for one in theirs]):.0f} us")
    if bar.processor is None:
        report.note(f"{what}: processor time, wfdash / {peer}", f"{median(times):.2f} x")
    else:
        report.at_most(f"{what}: processor time, wfdash / {peer}", median(times), bar.processor, "x")


BARS = {1: Bar(rate=2.5, processor=0.38, floor=0.75), AT_ONCE: Bar(rate=5.0, processor=0.13, floor=0.33)}


def profiled() -> None:
    """Print where the time goes, one run at a time and 50 at once, in the event loop's thread."""
    from checkpoints.database.storage import DatabaseStorage

    async def work(runs: int) -> None:
        storage = DatabaseStorage()
        chain = build_chain(STEPS)
        await measure_runs(chain, storage, STEPS, runs)
        profile.enable()
        for _ in range(5):
            await measure_runs(chain, storage, STEPS, runs)
        profile.disable()
        await storage.aclose()

    for runs in (1, AT_ONCE):
        profile = cProfile.Profile()
        asyncio.run(work(runs))
        print(f"\n### {runs} at once")
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> int:
    """Measure, or profile."""
    with fresh_django() as database, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if "--profile" in sys.argv:
            profiled()
            return 0
        peers = [stack.enter_context(Peer(name)) for name in PEERS]
        rounds = asyncio.run(measure(database, Path(folder), peers))
    return show(f"chain of {STEPS} durable steps, 1 KB of state, SQLite", rounds, BARS)


if __name__ == "__main__":
    sys.exit(main())

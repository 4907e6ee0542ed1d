"""A superstep of Agent Framework with 1 KB of state on our storage and on its own files, in turns: processor time.

Its files are never synced. Ours is synced at each save, or, to see what that costs, only as a drive ends.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent_framework import FileCheckpointStorage

from checkpoints.agent_framework import CheckpointStorage
from checkpoints.file import FileStorage
from tests.benchmarks.peers.peer_agentframework import build_chain
from tests.benchmarks.world import Report, median

STEPS, ROUNDS = 100, 15
BAR = 1.3


async def microseconds(storage: Any) -> float:
    """Return the processor time of a step, of all threads."""
    chain = build_chain(STEPS, storage)
    began = time.process_time()
    await chain.run(0)
    return (time.process_time() - began) / STEPS * 1e6


async def compare(folder: Path, report: Report) -> None:
    """Measure in turns and fill the report; a first round warms up."""
    async with (
        FileStorage(folder / "synced.sqlite3") as synced,
        FileStorage(folder / "unsynced.sqlite3", durability="relaxed") as unsynced,
    ):
        rounds = []
        for place in range(ROUNDS + 1):
            theirs = await microseconds(FileCheckpointStorage(folder / f"{place}"))
            rounds.append([theirs, *[await microseconds(CheckpointStorage(one)) for one in (unsynced, synced)]])
    for place, words in ((1, "neither syncs"), (2, "ours syncs")):
        report.at_most(words, median([one[place] / one[0] for one in rounds[1:]]), BAR, "x")
    report.note("theirs, ours, ours synced", " ".join(f"{median(found):.0f}" for found in zip(*rounds, strict=True)))


def main() -> int:
    """Measure and print."""
    report = Report("a superstep of Agent Framework, ours / theirs, processor time")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), report))
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

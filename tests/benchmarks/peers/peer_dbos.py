"""Durable steps per second of DBOS, as JSON. Stands alone: run by any Python that has it.

    echo STEPS RUNS | python peer_dbos.py [URL]

One step is one ``@DBOS.step()`` whose 1 KB result is recorded before the next begins.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from dbos import DBOS, DBOSConfig


@DBOS.step()
async def next_blob(i: int) -> str:
    """Return the text of one step, 1 KB."""
    return f"{i:08d}" + "x" * 1000


@DBOS.workflow()
async def chain(steps: int) -> int:
    """Run ``steps`` recorded steps one after the other."""
    for i in range(steps):
        await next_blob(i)
    return steps


async def measure(steps: int, runs: int) -> float:
    """Steps per second of ``runs`` workflows at once."""
    started = time.perf_counter()
    handles = [await DBOS.start_workflow_async(chain, steps) for _ in range(runs)]
    for handle in handles:
        await handle.get_result()
    return steps * runs / (time.perf_counter() - started)


async def measure_one_by_one(steps: int, runs: int) -> float:
    """Steps per second, each workflow awaited where it was called."""
    started = time.perf_counter()
    for _ in range(runs):
        await chain(steps)
    return steps * runs / (time.perf_counter() - started)


async def measure_both(steps: int, runs: int) -> float:
    """Return the better way for this number of runs."""
    await chain(5)
    if runs == 1:
        return max([await measure_one_by_one(steps, 3) for _ in range(2)])
    return await measure(steps, runs)


def rates(url: str, steps: int, runs: int) -> dict[str, float]:
    """Return ``{"async": steps/s}``."""
    config: DBOSConfig = {"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"}
    DBOS(config=config)
    DBOS.launch()
    rate = asyncio.run(measure_both(steps, runs))
    DBOS.destroy()
    return {"async": rate}


def main() -> None:
    """Answer each line ``STEPS RUNS``; the database is the URL's, or a new SQLite file each time."""
    for line in sys.stdin:
        steps, runs = map(int, line.split())
        with tempfile.TemporaryDirectory() as folder:
            url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder, 'dbos.sqlite3')}"
            print(json.dumps(rates(url, steps, runs)), flush=True)


if __name__ == "__main__":
    main()

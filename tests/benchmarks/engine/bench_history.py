"""Looking things up among 10, 1,000, 10,000 and 100,000 checkpoints of one run, in milliseconds.

The latest, one by id, a list of 50: through the storage, as an event loop waits for it, and against the floor: the same
rows by bare ``sqlite3`` in the caller's own thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from checkpoints.content.chunks import payload_of, with_digest
from checkpoints.ids import CheckpointId, RunId, new_checkpoint_id, new_run_id
from tests.benchmarks.world import Report, fresh_django, median, percentile

COUNTS = (10, 1_000, 10_000, 100_000)
TIMES = 300
LATEST = "SELECT * FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC LIMIT 1"


async def fill(storage: Any, database: Path, count: int) -> tuple[RunId, CheckpointId]:
    """Store a run of so many checkpoints of 1 KB; returns it and one from its middle."""
    from checkpoints.conformance.worlds import checkpoint

    run = new_run_id()
    await storage.save(checkpoint(run, 1, body={"state": {"text": "x" * 1000}, "position": {}}))
    connection = sqlite3.connect(database)
    cursor = connection.execute("SELECT * FROM checkpoints_checkpoint WHERE run_id=?", (run,))
    names = [column[0] for column in cursor.description]
    row = dict(zip(names, cursor.fetchone(), strict=True))
    row["body"] = with_digest(payload_of(row["body"]).encode())  # Bound to no row, as long ago: all have the same.
    ids = [new_checkpoint_id() for _ in range(2, count + 1)]
    rows = [tuple({**row, "id": id_, "n": n}.values()) for n, id_ in enumerate(ids, 2)]
    connection.executemany(f"INSERT INTO checkpoints_checkpoint VALUES ({','.join('?' * len(names))})", rows)
    connection.execute("UPDATE checkpoints_run SET n=? WHERE id=?", (count, run))
    connection.commit()
    connection.close()
    return run, ids[len(ids) // 2]


async def timed(act: Callable[[], Awaitable[Any]]) -> list[float]:
    """Return the milliseconds of each of many calls, one after the other."""
    took = []
    for _ in range(TIMES):
        started = time.perf_counter()
        await act()
        took.append((time.perf_counter() - started) * 1000)
    return took


def floor(database: Path, run: RunId) -> float:
    """Return the milliseconds in which bare ``sqlite3`` reads the latest row."""
    connection, took = sqlite3.connect(database), []
    for _ in range(TIMES):
        started = time.perf_counter()
        connection.execute(LATEST, (run,)).fetchone()
        took.append((time.perf_counter() - started) * 1000)
    connection.close()
    return median(took)


async def measure(database: Path, report: Report) -> None:
    """Measure among few and among many."""
    from checkpoints.database.storage import DatabaseStorage

    storage = DatabaseStorage()
    runs = {count: await fill(storage, database, count) for count in COUNTS}
    latest: dict[int, float] = {}
    try:
        for count, (run, middle) in runs.items():
            took = await timed(lambda run=run: storage.get_latest(run))
            latest[count] = median(took)
            report.at_most(f"latest of {count:,}, p50", latest[count], 0.5)
            report.note(f"latest of {count:,}, p99", f"{percentile(took, 0.99):.2f} ms")
            by_id = median(await timed(lambda run=run, middle=middle: storage.load(run, middle)))
            report.at_most(f"one by id of {count:,}, p50", by_id, 0.5)
            listed = median(await timed(lambda run=run: storage.list_checkpoints(run, limit=50)))
            report.at_most(f"list of 50 of {count:,}, p50", listed, 2)
            report.note(f"floor: latest of {count:,}", f"{floor(database, run):.3f} ms")
    finally:
        await storage.aclose()
    report.at_most("latest of 100,000 / latest of 10", latest[100_000] / latest[10], 1.5, "x")


def main() -> int:
    """Measure and print."""
    report = Report("looking up checkpoints of 1 KB")
    with fresh_django() as database:
        asyncio.run(measure(database, report))
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

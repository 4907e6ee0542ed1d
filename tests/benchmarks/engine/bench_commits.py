"""Durable commits against the floor: bare ``sqlite3`` writing the same rows in the same transactions.

    python -m tests.benchmarks.engine.bench_commits [steps]

One commit = checkpoint of 1 KB, three events, run row and claim. Prints commits/s and the ratio to the floor,
one run at a time and 50 runs at once (the floor then groups 50 commits per transaction).
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402

from checkpoints.database.storage import DatabaseStorage  # noqa: E402
from checkpoints.events import EventKind  # noqa: E402
from checkpoints.ids import RunId, new_checkpoint_id, new_run_id  # noqa: E402
from checkpoints.records import Checkpoint, Claim, Commit, Phase, Standing  # noqa: E402

RUNS = 50
BODY = {"state": {f"key_{i}": "x" * 80 for i in range(10)}, "position": {"done": ["a", "b"]}}
EVENTS = tuple(EventKind.STEP_FINISHED.draft("s", activation="a", ms=3) for _ in range(3))

TEXT = "0" * 40 + " " + "x" * 1000
ROW = "(?,?,'step.finished','s',?,?)"
MOVE = "UPDATE checkpoints_run SET seq=seq+3, n=n+1, updated=? WHERE id=? AND epoch=0 RETURNING seq"
EXTEND = "UPDATE checkpoints_claim SET expires=? WHERE token=? AND expires>? RETURNING 1"
KEEP = """INSERT INTO checkpoints_checkpoint (id, run_id, n, workflow, version, engine, reason, created, format, size,
    clean, seq, body) VALUES (?,?,?,'w','v','native','step',?,1,1000,1,0,?)"""
TELL = f"INSERT INTO checkpoints_event (run_id, seq, kind, step, data, at) VALUES {ROW},{ROW},{ROW}"


class Floor:
    """Bare sqlite3, one thread."""

    def __init__(self, path: str) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA synchronous=FULL")
        self.runs = [str(new_run_id()) for _ in range(RUNS)]
        self.n = 0
        for run in self.runs:
            self.db.execute(
                "INSERT INTO checkpoints_run (id,workflow,version,engine,title,phase,seq,n,epoch,attempts,family,"
                "acted_by,created,updated) VALUES (?,'w','v','native','','ready',0,0,0,0,?,'','2026','2026')",
                (run, run),
            )
            row = (run, run, "w", 0, 9.0, "9999")
            self.db.execute(
                "INSERT INTO checkpoints_claim (run_id,token,worker,epoch,ttl,expires) VALUES (?,?,?,?,?,?)", row
            )

    def commits(self, runs: list[str]) -> None:
        """Write one commit of each run in one transaction."""
        self.n += 1
        self.db.execute("BEGIN IMMEDIATE")
        for run in runs:
            self.write(run)
        self.db.execute("COMMIT")

    def write(self, run: str) -> None:
        """Write the rows of one commit."""
        db, n = self.db, self.n
        now = "2026-11-21 05:00:00.000000"
        db.execute(MOVE, (now, run)).fetchall()
        db.execute(EXTEND, ("9999", run, now)).fetchall()
        db.execute(KEEP, (str(new_checkpoint_id()), run, n, now, TEXT))
        data = '{"activation":"a","ms":3}'
        db.execute(TELL, (run, n * 3, data, now, run, n * 3 + 1, data, now, run, n * 3 + 2, data, now))


def checkpoint(run: RunId, n: int) -> Checkpoint:
    """Return a checkpoint of about 1 KB."""
    now = datetime.now(UTC)
    plain = {"id": new_checkpoint_id(), "run": run, "n": n, "created": now, "body": BODY}
    return Checkpoint(**plain, workflow="w", version="v")


async def drive(storage: DatabaseStorage, claim: Claim, first: int, count: int) -> None:
    """Commit ``count`` steps of one run, one after another."""
    for n in range(first, first + count):
        one = Commit(run=claim.run, checkpoint=checkpoint(claim.run, n), events=EVENTS)
        await storage.commit(one, claim=claim)


async def claimed(storage: DatabaseStorage) -> Claim:
    """Return a claim on a new run."""
    run = new_run_id()
    await storage.commit(Commit(run=run, standing=Standing(phase=Phase.READY)))
    claim = await storage.claim(run, worker="bench", ttl=600)
    assert claim is not None
    return claim


async def storage_rates(steps: int) -> tuple[float, float]:
    """Return commits/s, one run at a time and 50 at once."""
    storage = DatabaseStorage()
    claims = [await claimed(storage) for _ in range(RUNS)]
    begun = time.perf_counter()
    await drive(storage, claims[0], 1, steps)
    alone = steps / (time.perf_counter() - begun)
    begun = time.perf_counter()
    each = steps * 4 // RUNS
    await asyncio.gather(*(drive(storage, claim, 1_000_000, each) for claim in claims))
    together = each * RUNS / (time.perf_counter() - begun)
    await storage.aclose()
    return alone, together


def floor_rates(path: str, steps: int) -> tuple[float, float]:
    """Return the floor's commits/s, one per transaction and 50 per transaction."""
    floor = Floor(path)
    alone = steps / timed(lambda: [floor.commits(floor.runs[:1]) for _ in range(steps)])
    groups = steps * 4 // RUNS
    together = groups * RUNS / timed(lambda: [floor.commits(floor.runs) for _ in range(groups)])
    floor.db.close()
    return alone, together


def timed(act: Callable[[], object]) -> float:
    """Return how many seconds it takes."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def main(steps: int) -> None:
    """Measure and print, three rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "bench.sqlite3")
        connections["default"].settings_dict["NAME"] = path
        call_command("migrate", verbosity=0)
        for _ in range(3):
            floor, ours = floor_rates(path, steps), asyncio.run(storage_rates(steps))
            for name, bare, got in zip(("one at a time", "50 at once"), floor, ours, strict=True):
                print(f"{name:14} floor {bare:8,.0f}/s   storage {got:8,.0f}/s   ratio {got / bare:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1500)

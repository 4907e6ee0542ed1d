"""SIGKILL -> running again, in milliseconds: with the library alone, and where another worker takes over.

Library: a process that runs a workflow on SQLite is killed in mid-step; the time from starting the next process to the
first line of the interrupted step, against the floor: a process that opens the same database with bare ``sqlite3``,
reads the row and writes the line. Also: how long ``recover`` takes with 1 MB of state. Two workers: from the kill of
one to the step's first line in the other. The restart of a whole server is measured in ``bench_latency``.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkpoints.ids import new_run_id
from tests.benchmarks.world import Report, fresh_django, median
from tests.e2e.server import wait_until

KILLS = 8
SERVED = Path(__file__).with_name("served.py")
LIBRARY = """
import asyncio, sys, time
from pathlib import Path
from checkpoints.file import FileStorage
from wfdash.workflow import Context, Workflow

log, database, run = sys.argv[1:]
lasting = Workflow("lasting")

@lasting.step(start=True)
async def first() -> int:
    return 1

@lasting.step(after=first)
async def last(one: int) -> int:
    with open(log, "a") as file:
        file.write(f"{time.monotonic_ns()}\\n")
    await asyncio.sleep(3600)
    return one

async def main() -> None:
    storage = FileStorage(database)
    message = {} if await storage.get_latest(run) else {"message": None}
    await lasting.run(storage=storage, run_id=run, **message)

asyncio.run(main())
"""
WORKER = """
import socket, sys

machine = sys.argv.pop()
socket.gethostname = lambda: machine
from django.core.management import execute_from_command_line

execute_from_command_line(["manage.py", "work"])
"""
BARE = """
import sqlite3, sys, time
log, database, run = sys.argv[1:]
connection = sqlite3.connect(database)
connection.execute("SELECT * FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC LIMIT 1", (run,)).fetchone()
with open(log, "a") as file:
    file.write(f"{time.monotonic_ns()}\\n")
"""


def marks(log: Path) -> list[int]:
    """Return the moments in a log, in ns of the monotonic clock."""
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def started(code: str, log: Path, database: Path, run: str) -> tuple[subprocess.Popen[bytes], float]:
    """Start a process; returns it, and the milliseconds until its next line in the log."""
    before, began = len(marks(log)), time.monotonic_ns()
    process = subprocess.Popen([sys.executable, "-c", code, str(log), str(database), run])
    line = wait_until(lambda: marks(log)[before:], seconds=30, what="the line")[0]
    return process, (line - began) / 1e6


def library(folder: Path) -> tuple[list[float], list[float]]:
    """Return the milliseconds of restarts with the library, and of the floor."""
    log, database, run = folder / "library.log", folder / "library.sqlite3", str(new_run_id())
    process, _ = started(LIBRARY, log, database, run)
    again, floor = [], []
    for _ in range(KILLS):
        process.kill()
        process.wait()
        bare, took = started(BARE, log, database, run)
        bare.wait()
        floor.append(took)
        process, took = started(LIBRARY, log, database, run)
        again.append(took)
    process.kill()
    process.wait()
    return again, floor


async def recover_big() -> float:
    """Return the milliseconds of ``recover`` with 1 MB of state."""
    from checkpoints.conformance.worlds import checkpoint
    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.manager import CheckpointManager

    storage, run = DatabaseStorage(), new_run_id()
    state = {f"key {key:03d}": f"{key:04d} " * 1000 for key in range(200)}
    await storage.save(checkpoint(run, 1, body={"state": state, "position": {}}))
    took = []
    for _ in range(20):
        began = time.perf_counter()
        await CheckpointManager(storage).recover(run)
        took.append((time.perf_counter() - began) * 1000)
    await storage.aclose()
    return median(took)


def start_worker(machine: str) -> subprocess.Popen[bytes]:
    """Start a worker process on the benchmark's database that takes this machine for one of that name."""
    return subprocess.Popen([sys.executable, "-c", WORKER, machine], stdout=subprocess.DEVNULL)


def taken_over(folder: Path, machines: Sequence[str]) -> list[float]:
    """Return the milliseconds from the kill of a worker to its step's first line in the other, of two ``machines``."""
    from django.contrib.auth.models import User

    from checkpoints.models import Claim, WorkerBeat
    from wfdash.access.viewer import viewer_for
    from wfdash.actions.runs.lifecycle import cancel_run, start_run
    from wfdash.worker.drive import Lease

    admin = viewer_for(User.objects.filter(username="admin").first() or User.objects.create_superuser("admin"))
    workers: dict[int, Any] = {one.pid: one for one in map(start_worker, machines)}
    names = dict(zip(workers, machines, strict=True))
    took = []

    try:
        for kill in range(KILLS):
            log = folder / f"taken-{machines[1]}-{kill}.log"
            run = start_run(admin, "lasting", {"log": str(log)})
            wait_until(lambda log=log: marks(log), seconds=30, what="the step")
            beats = [WorkerBeat.objects.filter(pk__contains=f":{pid}:") for pid in workers]
            wait_until(lambda beats=beats: all(each.exists() for each in beats), seconds=60, what="both workers")
            time.sleep(Lease().ttl)  # One that has just begun waits for others to renew their claims.
            pid = int(Claim.objects.get(run=run).worker.split(":")[1])
            victim = workers.pop(pid)
            began = time.monotonic_ns()
            victim.kill()
            victim.wait()
            line = wait_until(lambda log=log: marks(log)[1:], seconds=60, what="the step again")[0]
            took.append((line - began) / 1e6)
            fresh = start_worker(names[pid])
            workers[fresh.pid], names[fresh.pid] = fresh, names[pid]
            cancel_run(admin, run.id)
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    return took


def main() -> int:
    """Measure and print."""
    report = Report("SIGKILL -> running again")
    os.environ["WFDASH_WORKFLOWS"] = str(SERVED)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # What is installed is compiled.
    with tempfile.TemporaryDirectory(prefix="wfdash-bench-", ignore_cleanup_errors=True) as folder:
        again, floor = library(Path(folder))
        report.at_most("library: process started -> the step again, p50", median(again), 250)
        report.note("floor: a bare process reads the row", f"{median(floor):.0f} ms")
        with fresh_django(Path(folder)):
            report.note("recover with 1 MB of state", f"{asyncio.run(recover_big()):.1f} ms")
            here, there = taken_over(Path(folder), ("one", "one")), taken_over(Path(folder), ("one", "other"))
        report.at_most("two workers on one machine: kill -> the step again in the other, worst", max(here), 1_000)
        report.note("the same, p50", f"{median(here):.0f} ms")
        report.at_most("two workers on two machines, worst (a claim lasts 3.8 s)", max(there), 4_000)
        report.note("the same, p50", f"{median(there):.0f} ms")
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

"""Two bare workers want one run; the one that holds it is frozen (SIGSTOP) for longer than its lease, then woken."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tests.e2e.server import wait_until
from tests.faults.ledger import read_facts
from tests.faults.tables import Tables
from tests.faults.worlds import Process, World

LEASE = 0.3
SECONDS = 60.0


def freeze_and_wake(world: World, *, rounds: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Freeze the holder of the run, wait for the other, wake it: so often. Returns what was seen and what was wrong."""
    (run,), dice = world.play("save_at_once", processes=1, saves=1), random.Random(seed)
    notes, tables = world.data.with_name("notes.jsonl"), world.tables()
    tables.change("UPDATE checkpoints_run SET for_workers=TRUE WHERE id=?", run)
    crew = {process.pid: process for process in (contender(world, run, notes) for _ in range(2))}
    try:
        done = 0
        while done < rounds:
            pid, _ = wait_until(lambda: holder(tables, run), seconds=SECONDS, what="somebody who holds the run")
            time.sleep(dice.uniform(0, 0.02))
            done += freeze(crew[pid], tables, run, notes)
    finally:
        for process in crew.values():
            process.kill()
    return judged(tables, run)


def contender(world: World, run: str, notes: Path) -> Process:
    """Return a worker that has begun."""
    given = json.dumps({"run": run, "notes": str(notes), "ttl": LEASE})
    log = world.data.with_name("contend.log")
    return Process(
        [sys.executable, "-W", "ignore", "-m", "tests.faults.concurrency.contend", given], world.env, log
    ).start()


def holder(tables: Tables, run: str) -> tuple[int, int] | None:
    """Return the process that holds the run, and its epoch."""
    claims = [claim for claim in tables.claims() if claim["run_id"] == run]
    return (int(claims[0]["worker"].rpartition(":")[2]), claims[0]["epoch"]) if claims else None


def freeze(process: Process, tables: Tables, run: str, notes: Path) -> bool:
    """Freeze it until the other has committed, wake it and wait until it knows. False if it had lost the run before."""
    process.send(signal.SIGSTOP)
    pid, epoch = holder(tables, run) or (0, 0)
    if pid != process.pid:
        process.send(signal.SIGCONT)
        return False
    later = "SELECT 1 FROM checkpoints_event WHERE run_id=? AND (data->'data'->>'epoch')::int > ? LIMIT 1"
    try:
        wait_until(lambda: tables.read(later, run, epoch), seconds=SECONDS, what="a commit by the other")
    finally:
        process.send(signal.SIGCONT)
    insight = {"pid": pid, "lost": epoch}
    wait_until(lambda: insight in read_facts(notes), seconds=SECONDS, what="the woken one's insight")
    return True


def judged(tables: Tables, run: str) -> tuple[Counter[str], list[str]]:
    """Look at the order in which epochs wrote."""
    events, checkpoints = tables.events(run), tables.checkpoints(run)
    epochs = [event["data"]["data"]["epoch"] for event in events]
    wrong = [f"epoch {after} wrote after {before}" for before, after in pairwise(epochs) if after < before]
    if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
        wrong.append("events have holes")
    if [row["n"] for row in checkpoints] != list(range(1, len(events) + 2)):
        wrong.append("checkpoints have holes")
    return Counter(commits=len(events), epochs=len(set(epochs))), wrong

"""A backlog on PostgreSQL: how fast one, two and four workers end it, how they share it, and what an answer waits.

The runs are inserted as they are stored, without a hint, so that the workers have to find them: what is measured is
claiming, in which more workers must not hinder one another. With the cores of one machine full, four are no faster.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.benchmarks.servers.bench_latency import SERVED, open_requests
from tests.benchmarks.servers.bench_recovery import marks
from tests.benchmarks.world import Report, set_django_up
from tests.e2e.server import wait_until
from tests.faults.servers import Postgres

BACKLOG = Path(__file__).with_name("backlog.py")
TINY = int(os.environ.get("WFDASH_BENCH_RUNS", "1500"))
CHAINS = 400
BEFORE = 6000
ENDED = "SELECT count(*) FROM checkpoints_run WHERE phase IN ('completed','failed') AND created >= %s"
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


@contextmanager
def working(count: int, folder: str) -> Any:
    """Run so many workers, and wait until each lives."""
    from checkpoints.models import WorkerBeat

    WorkerBeat.objects.all().delete()
    command = [sys.executable, "-m", "wfdash", "manage", "work"]
    with Path(folder, "workers.log").open("a") as log:
        processes = [subprocess.Popen(command, stdout=log, stderr=log) for _ in range(count)]
        try:
            wait_until(lambda: WorkerBeat.objects.count() >= count, seconds=120, what="the workers")
            yield
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)


def insert(workflow: str, count: int, message: int) -> None:
    """Insert runs that are ready."""
    from django.utils import timezone

    from checkpoints.ids import new_run_id
    from checkpoints.models import Run
    from checkpoints.sql.tables import run_row
    from wfdash.engines import catalog

    version, now = catalog.get(workflow).description.version, timezone.now()
    rows = [
        Run(**run_row(new_run_id(), workflow=workflow, version=version), input=message, created=now, updated=now)
        for _ in range(count)
    ]
    Run.objects.bulk_create(rows, batch_size=500)


def ended(url: str, workflow: str, count: int, message: int) -> tuple[float, int, Counter[int]]:
    """Insert runs and wait for their end; returns seconds, transactions, and how many runs each process ended."""
    from django.utils import timezone

    from checkpoints.models import Run

    start = timezone.now()
    with psycopg.connect(url, autocommit=True) as connection:

        def number(sql: str, *params: Any) -> int:
            return int(connection.execute(sql, params).fetchone()[0])  # type: ignore[index, call-overload]

        before = number(TRANSACTIONS)
        began, polls = time.monotonic(), 0
        insert(workflow, count, message)
        while number(ENDED, start) < count:
            polls += 1
            time.sleep(0.02)
        took = time.monotonic() - began
        # Each connection reports what it did within a second.
        time.sleep(1.5)
        spent = number(TRANSACTIONS) - before - polls
    shares = Counter(Run.objects.filter(phase="completed", created__gte=start).values_list("output", flat=True))
    return took, spent, shares


def answered_behind_others(url: str, folder: str) -> float:
    """Return the seconds from an answer to its step's first line, with so many newer runs waiting."""
    from django.contrib.auth.models import User

    from wfdash.access.viewer import viewer_for
    from wfdash.actions.requests.answer import answer_request
    from wfdash.actions.runs.lifecycle import start_run

    admin, log = viewer_for(User.objects.create_superuser("admin")), Path(folder) / "answers.log"
    start_run(admin, "asking", {"log": str(log)})
    (request,) = wait_until(open_requests, seconds=60, what="the question")
    insert("tiny", BEFORE, 1)
    began = time.monotonic_ns()
    answer_request(admin, request, {"action": "approve"})
    noted = wait_until(lambda: marks(log), seconds=120, what="the step")
    return (noted[0] - began) / 1e9


def measure(report: Report, url: str, folder: str) -> None:
    """Measure with one, two and four workers."""
    rates: dict[int, float] = {}
    for workers in (1, 2, 4):
        with working(workers, folder):
            ended(url, "tiny", 50 * workers, 1)
            took, spent, shares = ended(url, "tiny", TINY, 1)
            rates[workers] = TINY / took
            report.note(f"tiny runs, {workers} workers", f"{rates[workers]:.0f} runs/s, {sorted(shares.values())}")
            report.at_most(f"transactions per run, {workers} workers", spent / TINY, 3, "")
            if workers == 4:
                report.at_most("largest share of a backlog / smallest", ratio(shares, workers), 2, "x")
                took, _, shares = ended(url, "chain", CHAINS, 10)
                report.note("chains of ten, 4 workers", f"{CHAINS / took:.0f} runs/s, {sorted(shares.values())}")
                report.at_most("largest share of chains / smallest", ratio(shares, workers), 2, "x")
                report.at_most(f"an answer behind {BEFORE} newer runs", answered_behind_others(url, folder), 0.6, "s")
    report.at_least("four workers / one", rates[4] / rates[1], 1.0)


def ratio(shares: Counter[int], workers: int) -> float:
    """Return the largest share over the smallest; infinite if a worker had none."""
    return max(shares.values()) / min(shares.values()) if len(shares) == workers else float("inf")


def main() -> int:
    """Measure and print."""
    report = Report("a backlog on PostgreSQL")
    server = Postgres()
    os.environ["WFDASH_WORKFLOWS"] = os.pathsep.join(map(str, (BACKLOG, SERVED)))
    try:
        with tempfile.TemporaryDirectory() as folder:
            url = server.new_database()
            set_django_up(WFDASH_DATABASE=url, WFDASH_DATA=folder)
            measure(report, url, folder)
    finally:
        server.cleanup()
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

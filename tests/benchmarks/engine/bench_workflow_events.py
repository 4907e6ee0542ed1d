"""What it costs to follow the events of a workflow among those of others.

    python -m tests.benchmarks.engine.bench_workflow_events [--postgres]

A commit pays nothing: no column, index or statement belongs to it. Measured is what readers do: the look at the
high-water mark while 8 transactions write, a page, and catching up through events of which one in a hundred is theirs.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from checkpoints.ids import new_run_id
from tests.benchmarks.world import Report, median, set_django_up
from tests.faults.servers import Postgres

EVENTS, EACH, WRITERS = 100_000, 100, 8
LOOK_BAR = {"sqlite": 1.0, "postgresql": 5.0}
SPAN_BAR = 250.0


def timed(work: Callable[[], Any], rounds: int = 9) -> float:
    """Return the median of milliseconds that some work takes."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1000)
    return median(times)


def fill() -> None:
    """Store events of 1,000 runs of another workflow, and among them one in a hundred of ours."""
    from django.utils import timezone

    from checkpoints.models import Event, Run

    now = timezone.now()
    runs = [str(new_run_id()) for _ in range(EVENTS // EACH)]
    rows = [
        Run(id=run, family=run, workflow="mine" if n % 100 == 0 else "other", seq=EACH, created=now, updated=now)
        for n, run in enumerate(runs)
    ]
    Run.objects.bulk_create(rows)
    data = {"activation": "a", "ms": 3, "output": "x" * 200}
    for seq in range(1, EACH + 1):
        Event.objects.bulk_create(
            Event(run_id=run, seq=seq, kind="step.finished", step="s", data=data, at=now) for run in runs
        )


def measure(report: Report, url: str) -> None:
    """Add the figures of one database."""
    from django.db import connection

    from checkpoints.database.high_water_mark import HighWaterMark, settled_id
    from wfdash.queries.history import SCANNED_IDS, read_span

    fill()
    mark = HighWaterMark()
    with ExitStack() as stack:
        if url:
            hold_open(stack, url)
        report.at_most(
            f"look at the mark, {WRITERS if url else 0} writing", timed(mark.current), LOOK_BAR[connection.vendor]
        )
    last = settled_id()
    report.at_most("page of 500 of the workflow that has most", page_of("other", last, 500), SPAN_BAR)
    report.at_most(f"{SCANNED_IDS:,} ids, one in a hundred of the workflow", page_of("mine", last, 1000), SPAN_BAR)
    report.at_most(f"{SCANNED_IDS:,} ids, none of the workflow", page_of("none", last, 1000), SPAN_BAR)

    def catch_up() -> int:
        place = found = 0
        while place < last:
            span = read_span("mine", after=place, last=last, limit=1000)
            place, found = span.reached, found + len(span.rows)
        return found

    assert catch_up() == EVENTS // 100
    report.note(f"catching up through {EVENTS:,} events", f"{timed(catch_up, 3):.0f} ms")


def page_of(workflow: str, last: int, limit: int) -> float:
    """Return the milliseconds that one read takes in the middle of the table."""
    from wfdash.queries.history import read_span

    return timed(lambda: read_span(workflow, after=last // 2, last=last, limit=limit))


def hold_open(stack: ExitStack, url: str) -> None:
    """Open transactions that have written an event each."""
    import psycopg

    for _ in range(WRITERS):
        writer = stack.enter_context(psycopg.connect(url))
        stack.callback(writer.rollback)
        writer.execute(
            "INSERT INTO checkpoints_event (run_id, seq, kind, data, at)"
            " SELECT id, %s + pg_backend_pid(), 'run.started', '{}', now() FROM checkpoints_run LIMIT 1",
            (EACH,),
        )


def main() -> int:
    """Measure and print."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wfdash-bench-", ignore_cleanup_errors=True))
        url = ""
        os.environ.pop("WFDASH_DATABASE", None)
        if "--postgres" in sys.argv:
            server = Postgres()
            stack.callback(server.cleanup)
            os.environ["WFDASH_DATABASE"] = url = server.new_database()
        set_django_up(WFDASH_DATA=folder)
        from django.db import connections

        stack.callback(connections.close_all)
        report = Report(f"events of a workflow, {'PostgreSQL' if url else 'SQLite'}, {EVENTS:,} events")
        measure(report, url)
        return report.show()


if __name__ == "__main__":
    sys.exit(main())

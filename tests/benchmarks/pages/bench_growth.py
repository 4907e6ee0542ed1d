"""Every list over a million runs and what they leave behind: 20 million events, 250,000 decisions, as many entries of
the audit; 10,000 requests are open.

Milliseconds of processor time per page, of the server's own thread and of PostgreSQL's process for it (Linux), and by
the clock. A page is the whole of it: session, person, list, rendering. Both, each in a process, of some 10 GB:
``python -m tests.benchmarks.pages.bench_growth [sqlite|postgres]``. ``WFDASH_BENCH_RUNS`` fills less.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.benchmarks.pages.measure import load_server, on_each_database, signed_in
from tests.benchmarks.world import Report, median, percentile, set_django_up

RUNS = int(os.environ.get("WFDASH_BENCH_RUNS", "1000000"))
TIMES = 20
BAR = 50


def addresses() -> Iterator[str]:
    """Yield the address of each list with its filters, orders and tabs, of pages about one thing, and of the API."""
    from checkpoints.models import HumanRequest, Run
    from tests.benchmarks.pages.bench_runs import FILTERS
    from wfdash.queries.audit import FILTER as AUDIT
    from wfdash.queries.requests.decisions import FILTER as DECISIONS
    from wfdash.queries.requests.inbox import FILTER as INBOX
    from wfdash.queries.requests.inbox import SORTS, TABS

    request = HumanRequest.objects.filter(answered=None).order_by("created").first()
    ended = Run.objects.filter(phase="completed").order_by("-created").first()
    assert request is not None
    assert ended is not None
    yield from ("/", "/?focus=1", f"/requests/{request.pk}/", f"/runs/{ended.pk}/", f"/runs/{ended.pk}/events/")
    yield from (f"/runs/{ended.pk}/{part}/" for part in ("logs", "checkpoints"))
    yield from ("/operations/", "/notifications/", "/schedules/", *(f"/statistics/?days={days}" for days in (1, 7, 30)))
    yield from (f"/?{urlencode({'tab': tab, 'sort': sort})}" for tab in TABS for sort in SORTS)
    for page, known in (("/", INBOX), ("/decisions/", DECISIONS), ("/audit/", AUDIT)):
        texts = ("refund", "nothing", *(one.example.rstrip("…") for one in known.qualifiers))
        yield from (f"{page}?{urlencode({'q': text})}" for text in texts)
    yield from (f"/runs/?{urlencode({'q': text})}" for text in FILTERS.values())
    yield from (f"/api/v1/{name}" for name in ("runs", "requests", "decisions", "audit", "notifications"))
    yield from (f"/api/v1/runs/{ended.pk}/{name}" for name in ("events", "steps", "checkpoints", "audit"))


class Clock:
    """Processor time of this thread and of the database's process for it."""

    def __init__(self) -> None:
        """Find the process."""
        from django.db import connection

        self._backend: Path | None = None
        if connection.vendor == "postgresql":
            connection.ensure_connection()
            given: Any = connection.connection
            self._backend = Path(f"/proc/{given.info.backend_pid}/schedstat")

    def milliseconds(self) -> float:
        """Return what was used so far."""
        database = int(self._backend.read_text().split()[0]) / 1e6 if self._backend and self._backend.exists() else 0.0
        return time.thread_time() * 1000 + database


def run(vendor: str) -> int:
    """Measure every page on one database and print."""
    set_django_up()
    from checkpoints.models import Run
    from tests.benchmarks.pages import inboxfill
    from tests.benchmarks.pages.growthfill import fill_growth, roll_up
    from tests.benchmarks.pages.runsfill import vacuum

    if not Run.objects.exists():
        fill_growth(RUNS)
        inboxfill.fill()
        roll_up()
        vacuum()
    load_server()
    report, client, clock = Report(f"lists over {RUNS:,} runs, {vendor}"), signed_in("otto"), Clock()
    for address in addresses():
        worked, took = list[float](), list[float]()  # The first look compiles what later ones have.
        for _ in range(TIMES + 1):
            began, started = clock.milliseconds(), time.perf_counter()
            assert client.get(address).status_code == 200, address
            worked.append(clock.milliseconds() - began)
            took.append((time.perf_counter() - started) * 1000)
        bar, most = (150, 120) if "statistics" in address else (BAR, 500)
        report.at_most(f"{address}: p95", percentile(worked[1:], 0.95), bar)
        report.note("  p50; by the clock", f"{median(worked[1:]):.1f}; {median(took[1:]):.1f}")
        report.at_most(f"{address}: HTML", len(client.get(address).content) / 1000, most, "kB")
    return report.show()


if __name__ == "__main__":
    sys.exit(on_each_database("tests.benchmarks.pages.bench_growth", run))

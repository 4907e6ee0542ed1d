"""The pages people open most, over a million runs and 10,000 open requests: milliseconds of server time, and queries.

A page is the whole of it: session, person, rendering, compression. ``work`` is the processor time of the server's own
thread: all there is on SQLite, without the database's share on PostgreSQL. Both, each in a process:
``python -m tests.benchmarks.pages.bench_first_byte [sqlite|postgres]``.
"""

from __future__ import annotations

import os
import sys
import time
from urllib.parse import quote

from tests.benchmarks.pages.measure import load_server, on_each_database, report_look, signed_in
from tests.benchmarks.world import Report, set_django_up

RUNS = int(os.environ.get("WFDASH_BENCH_RUNS", "1000000"))
TIMES = 20
BAR, MOST, SEARCH_BAR = {"sqlite": 45, "postgres": 55}, {"inbox": 12, "runs": 12}, 50
TYPED = ("r", "re", "refund", "refund order 5", "00f42", "name4711", "status:failed workflow:workflow_007", "nowhere")


def addresses(bar: int) -> dict[str, tuple[str, int]]:
    """Return the pages by name: address and bar."""
    from checkpoints.models import HumanRequest

    request = HumanRequest.objects.order_by("created").first()
    assert request is not None
    pages = {
        "inbox": "/",
        "inbox, one at a time": "/?focus=1",
        "request": f"/requests/{request.pk}/",
        "runs": "/runs/",
        "runs that failed": "/runs/?q=status:failed",
        "run": f"/runs/{request.run_id}/",
        "operations": "/operations/",
        "workflows": "/workflows/",
    }
    found = {name: (path, bar) for name, path in pages.items()}
    return found | {f"search: {text}": (f"/search/?q={quote(text)}", SEARCH_BAR) for text in TYPED}


def run(vendor: str) -> int:
    """Measure every page on one database and print."""
    set_django_up()
    from checkpoints.models import Run
    from tests.benchmarks.pages import inboxfill
    from tests.benchmarks.pages.runsfill import fill_runs, vacuum

    began = time.perf_counter()
    if not Run.objects.exists():
        fill_runs(RUNS)
        inboxfill.fill()
        vacuum()
    filled = time.perf_counter() - began
    report = Report(f"pages over {RUNS:,} runs and {inboxfill.REQUESTS:,} open requests, {vendor}; {filled:.0f} s")
    load_server()
    client = signed_in("otto", headers={"accept-encoding": "gzip"})
    for name, (path, bar) in addresses(BAR[vendor]).items():
        report_look(report, name, bar, lambda path=path: client.get(path), TIMES, MOST.get(name, 99))
    return report.show()


if __name__ == "__main__":
    sys.exit(on_each_database("tests.benchmarks.pages.bench_first_byte", run))

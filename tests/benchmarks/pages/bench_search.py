"""The search over everything, over a million runs and 10,000 open requests: milliseconds of server time per text.

What is measured is the whole answer to a key press: session, person, every kind of result, rendering. ``work`` is the
processor time of the server's own thread: all there is on SQLite, without the database's share on PostgreSQL.
Both, each in a process: ``python -m tests.benchmarks.pages.bench_search [sqlite|postgres]``.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from tests.benchmarks.pages import bench_inbox
from tests.benchmarks.pages.measure import look_often, on_each_database, queries_of, set_django_up
from tests.benchmarks.world import Report, median, percentile

RUNS = int(os.environ.get("WFDASH_BENCH_RUNS", "1000000"))
TIMES = 20
BAR = 50
PEOPLE = ("otto", "ana")
END = f"{0x12345 * 7919 % 1000003:012x}"
"""The end of the id of run 0x12345, as the database makes it."""
TEXTS = {
    "nothing yet": "",
    "one letter": "r",
    "a word of all": "refund",
    "a word of many": "parcel",
    "a word of few": "name4711",
    "a word that is nowhere": "nothingofthiskind",
    "three words": "refund letter novak",
    "an id": "00012345-0000-7000-8000-{end}",
    "the end of an id": "{end8}",
    "the beginning of an id": "000123",
    "a status": "status:failed",
    "status, workflow and word": "status:failed workflow:workflow_007 parcel",
    "workflows that begin so": "workflow:workflow_01*",
    "a tag of old ones and a status": "tag:old status:waiting",
    "a filter of requests": "risk:high due:<2d novak",
    "not a word": "-parcel",
    "an invalid part": "colour:red status: refund",
}


def run(vendor: str) -> int:
    """Measure every text on one database, for who may see everything and for a reviewer, and print."""
    set_django_up()
    from django.contrib.auth.models import User
    from django.test import Client

    from tests.benchmarks.pages.runsfill import fill_runs

    bench_inbox.fill()
    fill_runs(RUNS)
    report = Report(f"the search over everything over {RUNS:,} runs, {vendor}")
    for name in PEOPLE:
        client = Client(HTTP_HOST="localhost")
        client.force_login(User.objects.get(username=name))
        for called, text in TEXTS.items():
            took, worked, queries = _measure(client, text.format(end=END, end8=END[-8:]))
            report.at_most(f"{name}, {called}: p50", median(took), BAR)
            worst = (
                f"{percentile(took, 0.95):.1f} ms; {median(worked):.1f}, {percentile(worked, 0.95):.1f} ms; {queries}"
            )
            report.note("  p95; work p50, p95; queries", worst)
    return report.show()


def _measure(client: Any, text: str) -> tuple[list[float], list[float], int]:
    def look() -> Any:
        return client.get("/search/", {"q": text, "fragment": "options"})

    look()
    number, answer = queries_of(look)
    assert answer.status_code == 200
    return *look_often(look, TIMES), number


if __name__ == "__main__":
    sys.exit(on_each_database("tests.benchmarks.pages.bench_search", run))

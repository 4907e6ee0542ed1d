"""The list of runs over a million of them: milliseconds of server time per page and filter, and queries.

A page is the whole of it: session, person, list, rendering; ``list`` is finding alone, as the API does; ``middle`` the
same in the middle of all. ``work`` is the processor time of the server's own thread: all there is on SQLite, without
the database's share on PostgreSQL. Both, each in a process:
``python -m tests.benchmarks.pages.bench_runs [sqlite|postgres]``.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any
from urllib.parse import urlencode

from tests.benchmarks.pages.measure import measure, on_each_database, signed_in
from tests.benchmarks.world import Report, median, percentile, set_django_up

RUNS = int(os.environ.get("WFDASH_BENCH_RUNS", "1000000"))
TIMES = 20
BAR = 50
FILTERS = {
    "everything": "",
    "a status": "status:waiting",
    "several statuses": "status:failed,paused,sleeping",
    "running": "status:running",
    "queued": "status:queued",
    "interrupted": "status:interrupted",
    "open": "status:open",
    "not completed": "-status:completed",
    "a workflow": "workflow:workflow_007",
    "workflows that begin so": "workflow:workflow_01*",
    "started within two days": "started:<2d",
    "started on a day long ago": "started:>300d",
    "finished within an hour": "finished:<1h",
    "finished long ago": "finished:>300d",
    "by a person": "by:ana",
    "an id": "id:000f42",
    "a tag of many": "tag:eu",
    "a tag of few": "tag:audit",
    "a tag of old ones": "tag:old",
    "without tags": "-tag:*",
    "an error": "error:ValueError",
    "an error that begins so": "error:time*",
    "a number": "input.amount:250",
    "few numbers": "input.amount:>998",
    "many numbers": "input.amount:>100",
    "a text": 'input.customer:"customer 77"',
    "a word of few": "name4711",
    "a word of many": "parcel",
    "the beginning of a word": "let",
    "a word of old failures": "timeout",
    "a word that is nowhere": "nothingofthiskind",
    "altered": "is:altered",
    "forked": "is:forked",
    "a version": "version:4f1c007",
    "status and workflow": "status:failed workflow:workflow_007",
    "status, tag, number and word": "status:failed tag:eu input.amount:>500 parcel",
    "many and many that never meet": "tag:old started:<30d",
    "two that hardly meet": "tag:old status:waiting parcel",
    "not a tag, not a word": "-tag:eu -parcel status:failed",
}


def deep(viewer: Any) -> str:
    """Return the cursor of a page somewhere in the middle."""
    from checkpoints.models import Run
    from wfdash.queries.runs.listing import NEWEST

    run = Run.objects.filter(epoch=RUNS // 2).only("created", "id").first()
    return NEWEST.cursor({"created": run.created, "id": run.id}) if run else ""


def run(vendor: str) -> int:
    """Measure every filter on one database and print."""
    set_django_up()
    from django.contrib.auth.models import User

    from checkpoints.models import Run
    from tests.benchmarks.pages.runsfill import fill_runs, vacuum
    from wfdash.access.viewer import viewer_for
    from wfdash.queries.runs.listing import read_runs

    began = time.perf_counter()
    if not Run.objects.exists():
        fill_runs(RUNS)
        vacuum()
    report = Report(f"the list over {RUNS:,} runs, {vendor}; filled in {time.perf_counter() - began:.0f} s")
    user = User.objects.get(username="otto")
    client, viewer = signed_in("otto"), viewer_for(user)
    middle = deep(viewer)
    for name, text in FILTERS.items():
        url = "/runs/?" + urlencode({"q": text})
        pages = measure(lambda url=url: client.get(url), TIMES)
        lists = measure(lambda text=text: read_runs(viewer, text), TIMES)
        further = measure(lambda text=text: read_runs(viewer, text, cursor=middle), TIMES)
        found = read_runs(viewer, text)
        report.at_most(f"{name}: p95", percentile(pages[0], 0.95), BAR)
        told = "; ".join(
            f"{median(took):.1f} {percentile(took, 0.95):.1f} {median(worked):.1f}"
            for took, worked, _ in (pages, lists, further)
        )
        more = "…" if found.next else ""
        report.note(
            "  p50 p95 work: page; list; middle; queries; found", f"{told}; {pages[2]}; {len(found.items)}{more}"
        )
    return report.show()


if __name__ == "__main__":
    sys.exit(on_each_database("tests.benchmarks.pages.bench_runs", run))

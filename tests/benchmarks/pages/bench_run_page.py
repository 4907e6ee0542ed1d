"""A run of 10,000 events, 3,000 activations and 2,000 checkpoints: milliseconds of server time per page, and queries.

First: the first look of a process at this address; then what everyone after gets, and what a page that is open asks
for when the run goes on. ``work`` is the processor time of the server's own thread: all there is on SQLite, without the
database's share on PostgreSQL. In a browser: from the navigation to the load event, and the longest task on its main
thread after it (SQLite).
Both databases, each in a process: ``python -m tests.benchmarks.pages.bench_run_page [sqlite|postgres]``.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.benchmarks.pages.measure import look_often, on_each_database, queries_of, signed_in
from tests.benchmarks.world import Report, median, percentile, set_django_up

EVENTS, ACTIVATIONS, CHECKPOINTS = 10_000, 3_000, 2_000
STEPS = ("read", *(f"part/step_{n}" for n in range(4)), "look", "decide", "pay", "report")
TIMES = 15
BAR = 500
WORKFLOW = "bench"
SEEN = ("overview", "a step of many", "events", "state")
LONGEST = """() => new Promise((resolve) => {
  const found = [0];
  new PerformanceObserver((list) => found.push(...list.getEntries().map((entry) => entry.duration)))
    .observe({ type: "longtask", buffered: true });
  setTimeout(() => resolve(Math.max(...found)), 50);
})"""
PAGES = {
    "overview": "",
    "a step of many": "?step=look",
    "an item of it": "?step=look&activation=1500",
    "what is renewed while it goes on": "?fragment=live",
    "zoomed": "?from=600&to=1200",
    "events": "events/",
    "events: one by its address": "events/?seq=5000",
    "events: by step": "events/?view=grouped",
    "events: a word that is nowhere": "events/?q=nothingofthiskind",
    "state": "state/",
}


def fill() -> str:
    """Store the run; returns its id."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from checkpoints import ids
    from checkpoints.models import Checkpoint, Event, Run, WorkflowVersion
    from tests import people

    people.make_people()
    at = timezone.now() - timedelta(hours=1)
    run_id = str(ids.new_run_id())
    WorkflowVersion.objects.create(workflow=WORKFLOW, version="v", description=description())
    run = Run.objects.create(
        id=run_id, family=run_id, workflow=WORKFLOW, version="v", title="Ten thousand", phase="waiting", input={"n": 1},
        created=at, updated=at, created_by=User.objects.get(username="otto"), seq=EVENTS, n=CHECKPOINTS,
    )  # fmt: skip
    rows = [Event(run=run, seq=1, kind="run.queued", data={"by": "otto"}, at=at), *happened(run, at)]
    Event.objects.bulk_create(rows[:EVENTS], batch_size=2000)
    people.save(run, step="read", body={"state": state(), "position": {"live": {}}})
    first = Checkpoint.objects.get(run=run)
    chain = [str(ids.new_checkpoint_id()) for _ in range(CHECKPOINTS)]
    Checkpoint.objects.filter(pk=first.pk).update(n=CHECKPOINTS, parent=chain[-2], seq=EVENTS)
    facts = {"run": run, "workflow": WORKFLOW, "version": "v", "engine": "native", "format": first.format}
    small = {"reason": "step", "step": "look", "created": at, "body": "{}", "size": 2}
    Checkpoint.objects.bulk_create(
        Checkpoint(id=chain[n - 1], n=n, parent=chain[n - 2] if n > 1 else None, seq=n * 5, **facts, **small)
        for n in range(1, CHECKPOINTS)
    )
    Run.objects.filter(pk=run_id).update(n=CHECKPOINTS, seq=EVENTS)
    return run_id


def happened(run: Any, at: Any) -> list[Any]:
    """Return the events of the activations: each began, went on, was logged, and ended."""
    from checkpoints.models import Event

    rows: list[Any] = []

    def add(kind: str, step: str, number: int, **data: Any) -> None:
        moment = at + timedelta(milliseconds=300 * len(rows))
        facts = {"activation": str(number), "item": number, **data}
        rows.append(Event(run=run, seq=len(rows) + 2, kind=kind, step=step, data=facts, at=moment))

    for number in range(ACTIVATIONS):
        name = STEPS[number % len(STEPS)] if number < 300 else "look"
        add("step.started", name, number)
        if not number % 3:
            add("log", name, number, level="INFO", logger="bench", message=f"looked at {number}")
        if not number % 7:
            add("step.failed", name, number, error={"type": "Oops", "message": "no"}, attempt=1)
            add("step.retrying", name, number, attempt=2, attempts=3, at=at.isoformat())
            add("step.started", name, number)
        if number > ACTIVATIONS - 20:
            add("step.waiting", name, number)
        else:
            add("step.finished", name, number, ms=300.0, output={"number": number, "words": "found " * 10})
    while len(rows) < EVENTS:
        add("progress", "look", ACTIVATIONS - 1, fraction=0.5, text="half")
    return rows


def state() -> dict[str, Any]:
    """Return a state of some 1 MB."""
    return {"items": [{"number": n, "text": "word " * 30, "tags": ["a", "b"]} for n in range(5_000)], "total": 1}


def description() -> dict[str, Any]:
    """Return a graph of nine steps, four of them in a sub-workflow."""
    from wfdash.contract import Description, EdgeInfo, StepInfo

    steps = [StepInfo(name=n, parent="part" if "/" in n else None, person=n == "decide") for n in STEPS]
    edges = [EdgeInfo(source=a, target=b) for a, b in itertools.pairwise(STEPS)]
    drawn = Description(workflow=WORKFLOW, title="Bench", engine="native", version="v", steps=steps, edges=edges)  # type: ignore[arg-type]
    return drawn.model_dump(mode="json")


def measure(client: Any, url: str) -> tuple[float, list[float], list[float], int, int]:
    """Return the milliseconds of the first page, those of many after it and their work, its queries and its bytes."""
    started = time.perf_counter()
    assert client.get(url).status_code == 200, url
    first = (time.perf_counter() - started) * 1000
    number, page = queries_of(lambda: client.get(url))
    took, worked = look_often(lambda: client.get(url), TIMES)
    return first, took, worked, number, len(page.content)


def in_browser(data: str, run_id: str, report: Report) -> None:
    """Open the pages in Chromium, again and again, on a server of their own."""
    from playwright.sync_api import sync_playwright

    from tests.e2e.conftest import FLAGS, sign_in
    from tests.e2e.server import Server

    server = Server(Path(data)).start()
    try:
        with sync_playwright() as playwright:
            path = os.environ.get("WFDASH_CHROMIUM") or shutil.which("chromium")
            browser: Any = playwright.chromium.launch(executable_path=path, args=FLAGS)
            page = browser.new_context(base_url=server.url, viewport={"width": 1440, "height": 900}).new_page()
            sign_in(page, server.link_for("otto"))
            for name in SEEN:
                took = [opened(page, f"/runs/{run_id}/{PAGES[name]}") for _ in range(TIMES)]
                loads, tasks = [one[0] for one in took], [one[1] for one in took]
                report.at_most(f"{name}: in a browser, p50", median(loads), BAR)
                report.note("  p95; longest task p50", f"{percentile(loads, 0.95):.0f}; {median(tasks):.0f} ms")
            browser.close()
    finally:
        server.stop()


def opened(page: Any, address: str) -> tuple[float, float]:
    """Return the milliseconds until a page has loaded, and those of its longest task within a second after."""
    page.goto(address)
    page.wait_for_timeout(1000)
    load: float = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    return load, page.evaluate(LONGEST)


def run(vendor: str) -> int:
    """Measure every page on one database and print."""
    set_django_up()
    run_id = fill()
    report = Report(f"a run of {EVENTS:,} events and {CHECKPOINTS:,} checkpoints, {vendor}")
    client = signed_in("otto")
    client.get("/runs/")
    for name, query in PAGES.items():
        first, took, worked, queries, size = measure(client, f"/runs/{run_id}/{query}")
        report.at_most(f"{name}: first", first, BAR)
        rest = f"{median(took):.0f}, {percentile(took, 0.95):.0f} ms; {median(worked):.0f} ms; {queries}"
        report.note("  then p50, p95; work p50; queries; size", f"{rest}; {size / 1000:.0f} kB")
    if vendor == "sqlite":
        in_browser(os.environ["WFDASH_DATA"], run_id, report)
    return report.show()


if __name__ == "__main__":
    sys.exit(on_each_database("tests.benchmarks.pages.bench_run_page", run))

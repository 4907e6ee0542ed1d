"""What an answer costs: statements, processor time of the server's process, and the time until the reply has arrived.

By the page against a real ``wfdash up`` on SQLite, where the answer can be undone (so nothing runs after it), in turns
with the floor of ``floor_view``; and the action alone, in process.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.servers.bench_latency import SERVED, open_requests, start_runs
from tests.benchmarks.world import Report, fresh_django, median, percentile
from tests.e2e.client import Person
from tests.e2e.server import Server, free_port, wait_until
from tests.keys import AUDIT_KEY

COUNT, ROUNDS, FIRST = 50, 6, 20
"""Answers of a round, rounds, and answers before the first round."""
HERTZ = os.sysconf("SC_CLK_TCK")


def processor_ms(process: int) -> float:
    """Return the milliseconds of processor time that a process and its threads have had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / HERTZ


def in_turn(process: int, keys: list[str], post: Callable[[str], Any]) -> tuple[list[float], float]:
    """Post once for each key; return the milliseconds of each, and those of processor time of one."""
    began, waited = processor_ms(process), []
    for key in keys:
        started = time.perf_counter()
        post(key)
        waited.append((time.perf_counter() - started) * 1000)
    return waited, (processor_ms(process) - began) / len(keys)


def by_page(server: Server, folder: Path, report: Report) -> None:
    """Measure the answers to open requests by the page's own form, and the floor, in turns."""
    port = free_port()
    floor = subprocess.Popen([sys.executable, str(Path(__file__).with_name("floor_view.py")), str(port), str(folder)])
    admin, bare = Person(server, "admin"), httpx.Client(base_url=f"http://127.0.0.1:{port}")
    try:
        start_runs(server, "asking", {"log": str(folder / "none.log")}, COUNT * ROUNDS + FIRST)
        wanted = COUNT * ROUNDS + FIRST
        requests = wait_until(lambda: found if len(found := open_requests()) == wanted else [], what="requests")
        wait_until(lambda: _answers(bare), what="the floor")
        admin.get(f"/requests/{requests[0]}/").raise_for_status()

        def answer(request: str) -> None:
            assert admin.post(f"/requests/{request}/", {"_action": "approve"}).status_code == 302

        def write(key: str) -> None:
            assert bare.post("/", data={"key": key}).status_code == 200

        ours, theirs = ([], []), ([], [])
        for place in range(-1, ROUNDS):
            keys = requests[:FIRST] if place < 0 else requests[FIRST + place * COUNT : FIRST + (place + 1) * COUNT]
            for found, process, post in (ours, server.process_id, answer), (theirs, floor.pid, write):
                waited, worked = in_turn(process, keys, post)
                if place >= 0:
                    found[0].extend(waited)
                    found[1].append(worked)
    finally:
        admin.close()
        bare.close()
        floor.kill()
        floor.wait()
    report.at_most("by the page: until the reply has arrived, p50", median(ours[0]), 10)
    report.note("by the page: until the reply has arrived, p99", f"{percentile(ours[0], 0.99):.2f} ms")
    report.at_most("by the page: processor time of the server", median(ours[1]), 6)
    report.note("floor: until the reply has arrived, p50", f"{median(theirs[0]):.2f} ms")
    report.note("floor: processor time", f"{median(theirs[1]):.2f} ms")


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/").status_code == 200
    except httpx.TransportError:
        return False


def in_process(report: Report) -> None:
    """Measure the action alone, of a reviewer who did not start the run, at once and where it can be undone."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from tests import people
    from wfdash.actions.requests.answer import answer_request

    who, ana = people.make_people(), people.viewer("ana")
    gc.collect()
    gc.freeze()  # as the server does
    for name, undo in (("at once", False), ("can be undone", True)):
        requests = [people.ask(people.make_run(created_by=who["otto"])) for _ in range(COUNT * ROUNDS + FIRST)]
        took = []
        for request in requests:
            started = time.thread_time()
            answer_request(ana, request.pk, {"action": "approve"}, undo=undo)
            took.append((time.thread_time() - started) * 1000)
        with CaptureQueriesContext(connection) as seen:
            answer_request(ana, people.ask(requests[0].run).pk, {"action": "approve"}, undo=undo)
        report.at_most(f"in process, {name}: processor time, p50", median(took[FIRST:]), 2)
        report.note(f"in process, {name}: statements", str(len(seen)))


def main() -> int:
    """Measure and print."""
    report = Report(f"an answer; load of the machine {os.getloadavg()[0]:.1f}")
    os.environ |= {"WFDASH_WORKFLOWS": str(SERVED), "WFDASH_AUDIT_KEY": AUDIT_KEY}
    with tempfile.TemporaryDirectory(prefix="wfdash-bench-", ignore_cleanup_errors=True) as folder:
        data = Path(folder)
        with fresh_django(data / "data"):
            server = Server(data / "data", files=[SERVED], undo=3600).start()
            try:
                by_page(server, data, report)
            finally:
                server.stop()
            in_process(report)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

"""How long people and viewers wait, in milliseconds.

Answer accepted -> the next step's first line: in process, and through HTTP against a real ``wfdash up``. Event
committed -> seen by a socket client. Server killed (SIGKILL) in mid-step and started -> that step begins again.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.servers.bench_recovery import KILLS, SERVED, marks
from tests.benchmarks.world import Report, fresh_django, median, percentile
from tests.e2e.client import Person, events_from
from tests.e2e.server import Server, shell, wait_until

COUNT = 200
EVENTS = 200
ADMIN = "viewer_for(User.objects.get(username='admin'))"
IMPORTS = """from django.contrib.auth.models import User
from wfdash.actions.runs.lifecycle import start_run
from wfdash.access.viewer import viewer_for
"""


def open_requests() -> list[str]:
    """Return the ids of open requests, oldest first."""
    from checkpoints.models import HumanRequest

    found = HumanRequest.objects.filter(closed__isnull=True, answered__isnull=True).order_by("created")
    return list(found.values_list("id", flat=True))


def answer_all(requests: list[str], log: Path, answer: Callable[[str], Any]) -> list[float]:
    """Answer one request after the other; return the milliseconds from before the answer to the step's first line."""
    waited = []
    for place, request in enumerate(requests):
        began = time.monotonic_ns()
        answer(request)
        found = wait_until(lambda place=place: found if len(found := marks(log)) > place else [], what="the step")
        waited.append((found[place] - began) / 1e6)
    return waited


def in_process(folder: Path) -> tuple[list[float], list[float]]:
    """Measure with a worker thread in this process: from before the desk's verb, and from its commit (the bell)."""
    from django.contrib.auth.models import User

    from wfdash import pubsub
    from wfdash.access.viewer import viewer_for
    from wfdash.actions.requests.answer import answer_request
    from wfdash.actions.runs.lifecycle import start_run
    from wfdash.worker.process import EmbeddedWorker

    admin = viewer_for(User.objects.create_superuser("admin"))
    log = folder / "in-process.log"
    worker = EmbeddedWorker(folder / "worker.lock")
    worker.start()
    for _ in range(COUNT):
        start_run(admin, "asking", {"log": str(log)})
    requests = wait_until(lambda: found if len(found := open_requests()) == COUNT else [], seconds=30)
    accepted: list[int] = []
    leave = pubsub.runs_due.subscribe(lambda _: accepted.append(time.monotonic_ns()))
    waited = answer_all(requests, log, lambda request: answer_request(admin, request, {"action": "approve"}))
    leave()
    worker.stop()
    began = marks(log)
    return waited, [(mark - at) / 1e6 for mark, at in zip(began, accepted, strict=True)]


def start_runs(server: Server, workflow: str, message: dict[str, Any], count: int = 1) -> list[str]:
    """Start runs beside the server; it finds them when it next looks for due runs. Returns their ids."""
    code = f"{IMPORTS}for _ in range({count}): print(start_run({ADMIN}, {workflow!r}, {message!r}).id)"
    return shell(server, code).splitlines()[-count:]


def through_http(server: Server, admin: Person, folder: Path) -> list[float]:
    """Measure from sending the POST of the decision card."""
    log = folder / "http.log"
    start_runs(server, "asking", {"log": str(log)}, COUNT)
    requests = wait_until(lambda: found if len(found := open_requests()) == COUNT else [], seconds=30)
    admin.get(f"/requests/{requests[0]}/").raise_for_status()

    def answer(request: str) -> None:
        response = admin.post(f"/requests/{request}/", {"_action": "approve"})
        assert response.status_code < 400, response.text[:2000]

    return answer_all(requests, log, answer)


def through_socket(server: Server, admin: Person, folder: Path) -> list[float]:
    """Measure from an event's own time, which is set before its commit, to its arrival at a viewer."""
    run = start_runs(server, "ticking", {"log": str(folder / "ticks.log"), "count": EVENTS})[0]
    late = []
    with admin.socket(f"/live/runs/{run}/?after=0") as socket:
        for event in events_from(socket):
            late.append((datetime.now(UTC) - datetime.fromisoformat(event["at"])).total_seconds() * 1000)
            if event["kind"] in {"run.completed", "run.failed"}:
                return late[len(late) // 4 :]
    raise AssertionError("the socket ended before the run")


def after_kill(server: Server, folder: Path) -> float:
    """Return milliseconds from starting the process again to the interrupted step's first line."""
    log = folder / f"kill-{time.monotonic_ns()}.log"
    start_runs(server, "lasting", {"log": str(log)})
    wait_until(lambda: marks(log), what="the step")
    server.kill()
    began = time.monotonic_ns()
    server.start()
    return (wait_until(lambda: marks(log)[1:], seconds=30, what="the step again")[0] - began) / 1e6


def measure_server(folder: Path, report: Report) -> None:
    """Measure everything that needs the real server."""
    os.environ["WFDASH_DATA"] = str(folder / "data")
    server = Server(folder / "data", files=[SERVED]).start()
    admin = Person(server, "admin")
    try:
        note_answers(report, "through HTTP", through_http(server, admin, folder), 10, 40)
        late = through_socket(server, admin, folder)
        report.at_most("event committed -> seen by a socket client, p50", median(late), 20)
        report.note("event committed -> seen by a socket client, p99", f"{percentile(late, 0.99):.2f} ms")
        again = [after_kill(server, folder) for _ in range(KILLS)]
        report.at_most("restart after SIGKILL -> the step again, p50", median(again), 1500)
        report.note("restart after SIGKILL -> the step again, worst", f"{max(again):.0f} ms")
    finally:
        admin.close()
        server.stop()


def note_answers(report: Report, way: str, waited: list[float], p50: float, p99: float) -> None:
    """Add p50 and p99 of the answers."""
    report.at_most(f"answer -> next step's first line, {way}, p50", median(waited), p50)
    report.at_most(f"answer -> next step's first line, {way}, p99", percentile(waited, 0.99), p99)


def main() -> int:
    """Measure and print."""
    report = Report("latency")
    os.environ["WFDASH_WORKFLOWS"] = str(SERVED)
    with tempfile.TemporaryDirectory(prefix="wfdash-bench-", ignore_cleanup_errors=True) as folder:
        server_folder = Path(folder)
        with fresh_django(server_folder / "data"):
            asked, accepted = in_process(server_folder)
            note_answers(report, "in process", accepted, 3, float("inf"))
            report.note("the same from before the answer's own transaction, p50", f"{median(asked):.2f} ms")
            measure_server(server_folder, report)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

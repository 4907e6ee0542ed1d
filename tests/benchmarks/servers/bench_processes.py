"""How long people and viewers wait where two servers and a worker share a PostgreSQL, in milliseconds.

Answer or start at one server -> the next step's first line in the worker. Event committed there, text streamed there,
and someone who opens a request at one server -> seen by a socket client of the other server. With ``--off`` the
processes do not signal each other. And how much the database logs of a run that asks, is answered and ends.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg

from tests import nursery
from tests.benchmarks.servers.bench_latency import SERVED, open_requests, start_runs, through_socket
from tests.benchmarks.servers.bench_recovery import marks
from tests.benchmarks.world import Report, median, percentile, set_django_up
from tests.e2e.client import Person
from tests.e2e.server import COMMAND, Server, wait_until
from tests.faults.servers import Postgres

COUNT, PIECES, VISITS = 100, 60, 30


class Web(Server):
    """A server that only serves pages, on a PostgreSQL."""

    database = ""

    @property
    def env(self) -> dict[str, str]:
        ours = {"WFDASH_DATABASE": self.database, "WFDASH_EMBED": "0", "WFDASH_SECRET_KEY": "k" * 50}
        return super().env | ours | ({"WFDASH_SIGNALS": "off"} if "--off" in sys.argv else {})


def pause() -> None:
    """Wait for a moment that is in step with no poll."""
    time.sleep(random.uniform(0.05, 0.25))


def answered(web: Web, admin: Person, folder: Path) -> list[float]:
    """Return the milliseconds from an answer's POST to the step's first line."""
    log = folder / "answers.log"
    start_runs(web, "asking", {"log": str(log)}, COUNT)
    requests = wait_until(lambda: found if len(found := open_requests()) == COUNT else [], what="the requests")
    admin.get(f"/requests/{requests[0]}/").raise_for_status()
    return [
        until_marked(log, place, lambda request=request: admin.post(f"/requests/{request}/", {"_action": "approve"}))
        for place, request in enumerate(requests)
    ]


def started(admin: Person, folder: Path) -> list[float]:
    """Return the milliseconds from the POST that starts a run to its first step's first line."""
    log = folder / "starts.log"
    body = {"workflow": "marking", "message": {"log": str(log)}}
    headers = {"X-CSRFToken": admin.http.cookies["csrftoken"], "Referer": str(admin.http.base_url)}

    def start() -> None:
        admin.http.post("/api/v1/runs", json=body, headers=headers).raise_for_status()

    return [until_marked(log, place, start) for place in range(COUNT)]


def until_marked(log: Path, place: int, act: Callable[[], Any]) -> float:
    """Act; return the milliseconds from before that to the moment a step notes as the one of this place."""
    pause()
    began = time.monotonic_ns()
    act()
    noted = wait_until(lambda: found if len(found := marks(log)) > place else [], what="the step", pause=0.002)
    return (noted[place] - began) / 1e6


def streamed(web: Web, admin: Person, folder: Path) -> int:
    """Return how many of the pieces that a step streams arrive."""
    gate = folder / "stream.gate"
    run = start_runs(web, "streaming", {"log": str(gate), "count": PIECES})[0]
    text = ""
    with admin.socket(f"/live/runs/{run}/?after=0") as socket:
        time.sleep(1)
        gate.touch()
        while True:
            message = json.loads(socket.recv(timeout=20))
            if message["type"] == "stream":
                text += message["text"]
            if any(event["kind"] == "run.completed" for event in message.get("events", ())):
                return text.count(";")


def visited(first: Person, second: Person, request: str) -> list[float]:
    """Return the milliseconds from a person's opening of a request to its arrival at the other server's viewers."""
    first.get(f"/requests/{request}/").raise_for_status()
    waited, what = [], f"people:{request}"
    with second.socket("/live/lists/") as socket:
        for number in range(VISITS):
            pause()
            began = time.monotonic_ns()
            first.post(f"/requests/{request}/presence/", {"typing": "1"} if number % 2 else {})
            with suppress(TimeoutError):
                while what not in json.loads(socket.recv(timeout=3)).get("what", ()):
                    pass
                waited.append((time.monotonic_ns() - began) / 1e6)
    return waited


def logged() -> float:
    """Return the kilobytes that the database has written to its log."""
    with psycopg.connect(Web.database) as connection:
        return float(connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0') / 1000").fetchall()[0][0])


def measure(folder: Path, report: Report) -> None:
    """Measure everything."""
    with ExitStack() as stack:
        webs = [Web(folder / name, files=[SERVED]).start() for name in ("web1", "web2")]
        for web in webs:
            stack.callback(web.kill)
        first, second = (stack.enter_context(closing(Person(web, "admin"))) for web in webs)
        env = webs[0].env | {"WFDASH_WORKFLOWS": str(SERVED), "DJANGO_SETTINGS_MODULE": "wfdash.settings"}
        with (folder / "worker.log").open("ab") as log:
            worker = nursery.start([COMMAND, "manage", "work"], stdout=log, stderr=log, env=env, cwd=folder)
        stack.callback(worker.wait)
        stack.callback(worker.kill)
        before = logged()
        waited = answered(webs[0], first, folder)
        report.at_most("answer -> next step's first line, through another server, p50", median(waited), 70)
        report.note(
            "answer -> next step's first line, through another server, p99", f"{percentile(waited, 0.99):.2f} ms"
        )
        report.at_most("log of a run with an answer", (logged() - before) / COUNT, 20, "kB")
        begun = started(first, folder)
        report.note("start -> first line, through another server, p50", f"{median(begun):.2f} ms")
        report.note("start -> first line, through another server, p99", f"{percentile(begun, 0.99):.2f} ms")
        late = through_socket(webs[0], second, folder)
        report.at_most("event committed -> seen at another server, p50", median(late), 20)
        report.note("event committed -> seen at another server, p99", f"{percentile(late, 0.99):.2f} ms")
        report.at_least("pieces of streamed text seen there", streamed(webs[0], second, folder), PIECES, "pieces")
        start_runs(webs[0], "asking", {"log": str(folder / "none.log")})
        (request,) = wait_until(open_requests, what="the request")
        if waited := visited(first, second, request):
            report.note("someone opens a request -> seen there, p50", f"{median(waited):.2f} ms")
        report.at_least("visits of a request seen there", len(waited), VISITS, "visits")
        report.note("load of the machine", f"{os.getloadavg()[0]:.1f}")


def main() -> int:
    """Measure and print."""
    report = Report("two servers and a worker on one PostgreSQL")
    server = Postgres()
    os.environ["WFDASH_WORKFLOWS"] = str(SERVED)
    try:
        with tempfile.TemporaryDirectory(prefix="wfdash-bench-", ignore_cleanup_errors=True) as folder:
            Web.database = server.new_database()
            server.execute("ALTER SYSTEM SET full_page_writes = off")  # as it is away from a checkpoint
            server.execute("SELECT pg_reload_conf()")
            set_django_up(WFDASH_DATABASE=Web.database, WFDASH_DATA=folder)
            measure(Path(folder), report)
    finally:
        server.cleanup()
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

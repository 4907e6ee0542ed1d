"""The database goes away or refuses to write while runs are being driven."""

from __future__ import annotations

import struct
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest
from psycopg import OperationalError
from psycopg.errors import AdminShutdown

from tests.e2e import server as servers
from tests.faults.checks import look
from tests.faults.crashes.people import LOOK_SECONDS
from tests.faults.outages.outages import all_ended, check_whole, client_of
from tests.faults.servers import Postgres
from tests.faults.worlds import World

pytestmark = pytest.mark.process
wait_until = partial(servers.wait_until, pause=LOOK_SECONDS)


def test_runs_go_on_by_themselves_after_postgresql_crashed(shared_world: World, postgres: Postgres) -> None:
    world, server = shared_world, shared_world.server()
    server.start()
    crew = [world.worker(name).start() for name in ("one", "two")]
    try:
        with client_of(server, world) as client:
            wait_until(lambda: world.tables().count() >= 5, what="completed runs")
            postgres.crash()
            postgres.restart()
            wait_until(lambda: world.tables().count() >= 10, what="runs completed since")
            client.start_no_more()
            wait_until(lambda: all_ended(world), what="the end of every run")
    finally:
        for worker in crew:
            worker.kill()
        server.kill()
    findings = look(world.tables(), world.ledger, client.promised, world.commits)
    assert findings.problems() == {}
    assert findings.seen["runs"] >= 10
    for worker in crew:
        said = worker.output.read_text()
        assert (said.count("The database is unavailable"), said.count("Traceback")) == (1, 0), said[-8000:]


def test_a_read_only_postgresql_refuses_visibly_and_runs_go_on_once_it_writes_again(
    shared_world: World, postgres: Postgres
) -> None:
    world, server = shared_world, shared_world.server()
    server.start()
    worker = world.worker("one").start()
    name = world.database.split("?")[0].rpartition("/")[2]
    try:
        with client_of(server, world) as client:
            wait_until(lambda: world.tables().count() >= 3, what="completed runs")
            refuse_writes(postgres, name, refuse=True)
            wait_until(lambda: client.problems, what="a refused command")
            seqs = [(run["id"], run["seq"]) for run in world.tables().runs()]
            wait_until(lambda: "read-only" in worker.output.read_text(), what="a word in the log")
            assert [(run["id"], run["seq"]) for run in world.tables().runs()] == seqs
            refuse_writes(postgres, name, refuse=False)
            client.start_no_more()
            wait_until(lambda: all_ended(world), what="the end of every run")
    finally:
        worker.kill()
        server.kill()
    assert look(world.tables(), world.ledger, client.promised, world.commits).problems() == {}
    assert client.problems
    # The client looks at the tables by a session of its own, which the failover ended, too.
    unseen = (AdminShutdown.__name__, OperationalError.__name__)
    assert [one for one in client.problems if ": 503" not in one and not one.startswith(unseen)] == []


def refuse_writes(postgres: Postgres, name: str, *, refuse: bool) -> None:
    """Make the database read-only or not, as a failover does: every session ends."""
    postgres.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {"on" if refuse else "off"}')
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


def copied(log: Path) -> int:
    """Return how many bytes of SQLite's log are in the database already: these were synced before, and cannot be lost.

    https://www.sqlite.org/walformat.html: a header and frames of a page; ``nBackfillAttempted`` of the index.
    """
    (page,) = struct.unpack_from(">I", log.read_bytes(), 8)
    (frames,) = struct.unpack_from("=I", log.with_name(log.name.removesuffix("-wal") + "-shm").read_bytes(), 128)
    return 32 + int(frames) * (24 + int(page))


def test_a_log_that_was_cut_off_in_the_middle_leaves_whole_commits(world: World) -> None:
    server = world.server()
    server.start()
    with client_of(server, world):
        wait_until(lambda: world.tables().count() >= 4, what="completed runs")
    server.kill()
    log = world.sqlite_file.with_name(world.sqlite_file.name + "-wal")
    with log.open("r+b") as file:
        file.truncate(max(log.stat().st_size * 2 // 3, copied(log)))
    check_whole(world)
    runs = [run["id"] for run in world.tables().runs()]
    assert world.play("live_through", runs=runs, ledger=str(world.ledger)) == ["completed"]


def test_the_server_says_when_it_cannot_reach_its_database(shared_world: World, postgres: Postgres) -> None:
    server = shared_world.server()
    server.start()
    postgres.crash()
    try:
        told = httpx.get(f"{server.url}/readyz", timeout=20)
        assert (told.status_code, told.headers["retry-after"]) == (503, "5")
        assert told.text == "not ready\nok process: running\nok workflows: loaded\nFAILED database: no response\n"
        assert httpx.get(f"{server.url}/livez", timeout=20).status_code == 200
        postgres.restart()
        wait_until(lambda: "ok database" in httpx.get(f"{server.url}/readyz", timeout=20).text, what="readiness")
    finally:
        server.kill()
        postgres.restart()


@pytest.mark.nightly
def test_a_database_that_hangs_holds_no_request_for_longer_than_its_deadline(
    shared_world: World, postgres: Postgres
) -> None:
    server = shared_world.server()
    server.start()
    worker = shared_world.worker("one").start()
    wait_until(lambda: "started" in worker.output.read_text(), what="the worker")
    session = server.session_of("admin")
    cookies = {session["name"]: session["value"]}

    def ask(path: str, most: float) -> httpx.Response:
        began = time.monotonic()
        told = httpx.get(f"{server.url}{path}", timeout=60, cookies=cookies)
        assert time.monotonic() - began < most
        return told

    try:
        assert ask("/readyz", 30).status_code == 200
        assert ask("/runs/", 30).status_code == 200
        with postgres.frozen(), ThreadPoolExecutor(12) as clients:
            asked = [clients.submit(ask, path, 25) for path in ("/runs/", "/api/v1/runs") * 5]
            for _ in range(3):
                told = ask("/readyz", 6)
                assert (told.status_code, told.headers["retry-after"]) == (503, "5")
                assert "FAILED database: no response" in told.text
            assert ask("/livez", 5).status_code == 200
            answers = [one.result() for one in asked]
            assert {(told.status_code, told.headers.get("retry-after")) for told in answers} == {(503, "5")}
        wait_until(lambda: ask("/readyz", 30).status_code == 200, what="readiness")
        assert ask("/api/v1/runs", 30).status_code == 200
        wait_until(lambda: "available again" in worker.output.read_text(), what="the end of the outage")
        said = worker.output.read_text()
        assert (said.count("The database is unavailable"), said.count("Traceback")) == (1, 0), said[-8000:]
    finally:
        worker.kill()
        server.kill()

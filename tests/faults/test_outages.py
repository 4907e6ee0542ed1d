"""The database goes away, is full, or refuses to write, while runs are being driven."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.e2e.server import wait_until
from tests.faults.checks import Promised, look
from tests.faults.people import Client
from tests.faults.servers import Postgres
from tests.faults.worlds import FaultServer, World

pytestmark = pytest.mark.process
NOTHING = Promised(starts={}, answers={})


@contextmanager
def client_of(server: FaultServer, world: World, *, wanted: int = 6) -> Iterator[Client]:
    client = Client(server, world.tables(), world.ledger, wanted=wanted)
    client.start()
    try:
        yield client
    finally:
        client.finish()


def all_ended(world: World) -> bool:
    tables = world.tables()
    return tables.count("'completed','failed','cancelled'") == len(tables.runs()) and not tables.claims()


@pytest.mark.timeout(150)
def test_runs_go_on_by_themselves_after_postgresql_crashed(shared_world: World, postgres: Postgres) -> None:
    world, server = shared_world, shared_world.server()
    server.start()
    crew = [world.worker(name).start() for name in ("one", "two")]
    try:
        with client_of(server, world) as client:
            wait_until(lambda: world.tables().count() >= 5, seconds=60, what="completed runs")
            postgres.crash()
            postgres.restart()
            wait_until(lambda: world.tables().count() >= 10, seconds=60, what="runs completed since")
            client.starting = False
            wait_until(lambda: all_ended(world), seconds=60, what="the end of every run")
    finally:
        for worker in crew:
            worker.kill()
        server.kill()
    findings = look(world.tables(), world.ledger, client.promised, world.commits)
    assert findings.problems() == {}
    assert findings.seen["runs"] >= 10


@pytest.mark.timeout(120)
def test_a_read_only_postgresql_refuses_visibly_and_runs_go_on_once_it_writes_again(
    shared_world: World, postgres: Postgres
) -> None:
    world, server = shared_world, shared_world.server()
    server.start()
    worker = world.worker("one").start()
    name = world.database.split("?")[0].rpartition("/")[2]
    try:
        with client_of(server, world) as client:
            wait_until(lambda: world.tables().count() >= 3, seconds=60, what="completed runs")
            refuse_writes(postgres, name, refuse=True)
            wait_until(lambda: client.problems, seconds=60, what="a refused command")
            seqs = [(run["id"], run["seq"]) for run in world.tables().runs()]
            wait_until(lambda: "read-only" in worker.output.read_text(), seconds=60, what="a word in the log")
            assert [(run["id"], run["seq"]) for run in world.tables().runs()] == seqs
            refuse_writes(postgres, name, refuse=False)
            client.starting = False
            wait_until(lambda: all_ended(world), seconds=60, what="the end of every run")
    finally:
        worker.kill()
        server.kill()
    assert look(world.tables(), world.ledger, client.promised, world.commits).problems() == {}
    assert client.problems
    assert all(": 503" in problem for problem in client.problems)


def refuse_writes(postgres: Postgres, name: str, *, refuse: bool) -> None:
    """Make the database read-only or not, as a failover does: every session ends."""
    postgres.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {"on" if refuse else "off"}')
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


@pytest.mark.timeout(120)
def test_a_full_disk_is_said_and_runs_go_on_once_there_is_room(world: World) -> None:
    """The kernel refuses every write beyond a size (``RLIMIT_FSIZE``), as a full disk or a quota does."""
    server = world.server()
    server.start()
    try:
        with client_of(server, world) as client:
            wait_until(lambda: world.tables().count() >= 3, seconds=60, what="completed runs")
            fill_disk(server, world)
            wait_until(lambda: client.problems, seconds=60, what="a refused command")
            wait_until(lambda: "The database did not serve" in server.log(), seconds=60, what="a word in the log")
            check_whole(world)
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            client.starting = False
            wait_until(lambda: all_ended(world), seconds=60, what="the end of every run")
    finally:
        server.kill()
    assert look(world.tables(), world.ledger, client.promised).problems() == {}
    assert all(": 503" in problem for problem in client.problems)


def fill_disk(server: FaultServer, world: World) -> None:
    """Leave no room: nothing may grow beyond what the write-ahead log has reached."""
    size = world.sqlite_file.with_name(world.sqlite_file.name + "-wal").stat().st_size
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def check_whole(world: World) -> None:
    """Every run's counters agree with its rows, and the file is sound."""
    for run in world.tables().runs():
        assert len(world.tables().events(run["id"])) == run["seq"]
        assert len(world.tables().checkpoints(run["id"])) == run["n"]
    connection = sqlite3.connect(world.sqlite_file)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_log_that_was_cut_off_in_the_middle_leaves_whole_commits(world: World) -> None:
    server = world.server()
    server.start()
    with client_of(server, world):
        wait_until(lambda: world.tables().count() >= 4, seconds=60, what="completed runs")
    server.kill()
    log = world.sqlite_file.with_name(world.sqlite_file.name + "-wal")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size * 2 // 3)
    check_whole(world)
    runs = [run["id"] for run in world.tables().runs()]
    assert world.play("live_through", runs=runs, ledger=str(world.ledger)) == ["completed"]


def test_the_server_says_when_it_cannot_reach_its_database(shared_world: World, postgres: Postgres) -> None:
    server = shared_world.server()
    server.start()
    postgres.crash()
    try:
        assert httpx.get(f"{server.url}/readyz", timeout=20).status_code == 503
        assert httpx.get(f"{server.url}/livez", timeout=20).status_code == 200
        postgres.restart()
        wait_until(lambda: httpx.get(f"{server.url}/readyz", timeout=20).status_code == 200, what="readiness")
    finally:
        server.kill()
        postgres.restart()

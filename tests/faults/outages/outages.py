"""What the outages have in common: a client beside them, and how to see that nothing is half-written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.crashes.people import Client
from tests.faults.worlds import FaultServer, World


@contextmanager
def client_of(server: FaultServer, world: World, *, wanted: int = 6) -> Iterator[Client]:
    """Give someone who starts runs and answers them in the meantime."""
    client = Client(server, world.tables(), world.ledger, wanted=wanted)
    client.start()
    try:
        yield client
    finally:
        client.finish()


def completed(world: World) -> int:
    """Count the runs that have completed."""
    return world.tables().count()


def all_ended(world: World) -> bool:
    """Say whether every run has ended and no one holds one."""
    tables = world.tables()
    return tables.count("'completed','failed','cancelled'") == len(tables.runs()) and not tables.claims()


HALF_WRITTEN = """
SELECT r.id FROM checkpoints_run r
WHERE r.seq <> (SELECT count(*) FROM checkpoints_event e WHERE e.run_id=r.id)
   OR r.n <> (SELECT count(*) FROM checkpoints_checkpoint c WHERE c.run_id=r.id)
"""


def check_rows(world: World) -> None:
    """Every run's counters agree with its rows: in one statement, because commits may still be going on."""
    assert world.tables().read(HALF_WRITTEN) == []


def check_whole(world: World) -> None:
    """Every run's counters agree with its rows, and the SQLite file is sound."""
    check_rows(world)
    connection = sqlite3.connect(world.sqlite_file)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()

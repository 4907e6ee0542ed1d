"""Behind pgbouncer in transaction mode: a few server connections for many clients, none of which keeps one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from checkpoints.sql.conninfo import parameters_of, settings_of
from checkpoints.sql.postgres import BlockingPostgres, Pool, configure
from tests.cluster.pooler import Pooler
from tests.e2e.server import wait_until
from tests.faults.worlds import World

pytestmark = [pytest.mark.process, pytest.mark.postgres, pytest.mark.pooler]

RUNS = 40
SESSION = "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('synchronous_commit')"


@pytest.fixture
def lenient(postgres_server: dict[str, Any]) -> Iterator[Pooler]:
    """Give a pooler that drops the start-up parameters it does not know."""
    pooler = Pooler(postgres_server, size=1, ignored="extra_float_digits,options")
    yield pooler
    pooler.stop()


def test_forty_runs_of_forty_end_behind_a_pooler(tmp_path: Path, new_database: str, pooler: Pooler) -> None:
    world = World(tmp_path, database=new_database)
    name = new_database.partition("?")[0].rpartition("/")[2]
    world.database, world.more = pooler.url(name), {"WFDASH_DATABASE_DIRECT": new_database}
    worker = world.worker("one").start()
    try:
        runs = world.play("start_many", workflow="chain", numbers=list(range(RUNS)), ledger=str(world.ledger))
        wait_until(lambda: phases(world).get("completed") == len(runs), what="the end of forty runs", pause=0.2)
    finally:
        worker.kill()
    assert phases(world) == {"completed": RUNS}
    assert "Traceback" not in worker.output.read_text()


def phases(world: World) -> dict[str, int]:
    """Return how many runs are in each phase."""
    return {row["phase"]: row["n"] for row in world.tables().read(
        "SELECT phase, count(*) AS n FROM checkpoints_run GROUP BY phase"
    )}  # fmt: skip


def test_a_pooler_is_noticed_and_nothing_of_a_session_is_left_on_its_connections(
    lenient: Pooler, postgres_server: dict[str, Any]
) -> None:
    parameters = parameters_of(settings_of(lenient.url(postgres_server["NAME"])))

    def script() -> Any:
        (rows,) = yield [(SESSION, ())]
        return rows[0]

    async def by_the_pool() -> Any:
        pool = Pool(parameters, 1, configure)
        async with pool.connection() as connection:
            from checkpoints.sql.postgres_scripts import run_script

            assert connection.prepare_threshold is None
            found = await run_script(connection, script())
        pool.close()
        return found

    blocking = BlockingPostgres(parameters, flush=True)
    try:
        assert blocking.write(script) == asyncio.run(by_the_pool()) == ("10s", "on")
    finally:
        blocking.close()
    with psycopg.connect(**parameters, autocommit=True) as other:
        assert other.execute(SESSION).fetchone()[0] == "0"

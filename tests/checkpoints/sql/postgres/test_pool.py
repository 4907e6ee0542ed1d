from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from django.db import connections
from psycopg import errors

from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import new_run_id
from checkpoints.sql.conninfo import parameters_of
from checkpoints.sql.postgres import Pool
from checkpoints.sql.postgres_scripts import fetch
from tests.conformance.worlds import checkpoint

pytestmark = pytest.mark.postgres

OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'wfdash% storage %'"
LOOPS = 60


@pytest.fixture
def parameters(postgres_alias: str) -> dict[str, Any]:
    """Give what the storage connects with."""
    return parameters_of(connections[postgres_alias].settings_dict)


@pytest.fixture
def server(parameters: dict[str, Any]) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**parameters | {"fallback_application_name": "test"}, autocommit=True) as connection:
        yield connection


@pytest_asyncio.fixture
async def pool(parameters: dict[str, Any]) -> AsyncIterator[Pool]:
    pool = Pool(parameters, 2, nothing)
    yield pool
    pool.close()


async def nothing(connection: Any) -> None:
    """Leave the connection as it is."""


def ours(server: psycopg.Connection[Any]) -> int:
    """Count the storage's connections."""
    return int(server.execute(OURS).fetchone()[0])


async def use(storage: DatabaseStorage) -> None:
    """Save and read, several times at once."""
    runs = [new_run_id() for _ in range(4)]
    await asyncio.gather(*(storage.save(checkpoint(run)) for run in runs))
    found = await asyncio.gather(*(storage.get_latest(run) for run in runs))
    assert [one.run for one in found if one] == runs


def test_many_event_loops_one_after_the_other_keep_few_connections(
    postgres_alias: str, server: psycopg.Connection[Any]
) -> None:
    storage, before = DatabaseStorage(postgres_alias), ours(server)
    most = 0
    for _ in range(LOOPS):
        asyncio.run(asyncio.wait_for(use(storage), 20))
        most = max(most, ours(server) - before)
    assert most <= 24
    asyncio.run(storage.aclose())
    assert gone(server, before)


def gone(server: psycopg.Connection[Any], before: int) -> bool:
    """Say whether the server has ended the storage's connections, once it had the time to."""
    deadline = threading.Event()
    return any(ours(server) <= before or deadline.wait(0.05) for _ in range(100))


def test_a_storage_that_is_forgotten_leaves_no_connection(postgres_alias: str, server: psycopg.Connection[Any]) -> None:
    before = ours(server)
    asyncio.run(use(DatabaseStorage(postgres_alias)))
    gc.collect()
    assert gone(server, before)


async def test_a_storage_is_closed_by_its_block(postgres_alias: str, server: psycopg.Connection[Any]) -> None:
    before = ours(server)
    async with DatabaseStorage(postgres_alias) as storage:
        await use(storage)
        assert ours(server) > before
    assert gone(server, before)


async def test_loops_of_several_threads_have_connections_of_their_own(postgres_alias: str) -> None:
    async with DatabaseStorage(postgres_alias) as storage:
        work = [asyncio.to_thread(lambda: asyncio.run(use(storage))) for _ in range(3)]
        await asyncio.gather(use(storage), *work)


async def test_nothing_is_left_running_in_a_loop(postgres_alias: str) -> None:
    async with DatabaseStorage(postgres_alias) as storage:
        await use(storage)
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_who_is_cancelled_in_the_middle_gives_the_place_back(pool: Pool) -> None:
    async def hold() -> None:
        async with pool.connection() as connection:
            await connection.execute("SELECT pg_sleep(60)")

    tasks = [asyncio.create_task(hold()) for _ in range(2)]
    waiting = asyncio.create_task(one(pool))
    await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    assert await asyncio.wait_for(waiting, 60) == 1
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_connection_whose_pipeline_was_left_on_is_not_used_again(pool: Pool) -> None:
    async with pool.connection() as left:
        left.pgconn.enter_pipeline_mode()
    async with pool.connection() as connection:
        assert connection is not left
        assert await fetch(connection, [("SELECT 1", ())]) == [[("1",)]]


async def one(pool: Pool) -> int:
    """Ask for a row."""
    async with pool.connection() as connection:
        row = await (await connection.execute("SELECT 1")).fetchone()
        return int(row[0]) if row else 0


async def test_after_a_connection_broke_none_of_its_company_is_used(
    pool: Pool, server: psycopg.Connection[Any]
) -> None:
    async with pool.connection() as first, pool.connection() as second:
        pids = [first.info.backend_pid, second.info.backend_pid]
    for pid in pids:
        server.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with pytest.raises(errors.OperationalError):
        await one(pool)
    assert await asyncio.gather(one(pool), one(pool)) == [1, 1]


async def test_a_server_that_is_away_is_an_outage_after_a_while(
    parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkpoints.sql.postgres.CONNECT_TIMEOUT", 0.2)
    pool = Pool(parameters | {"port": "1", "host": "127.0.0.1"}, 2, nothing)
    with pytest.raises(psycopg.OperationalError):
        await one(pool)

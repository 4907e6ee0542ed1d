"""Graphs of LangGraph on ``DjangoSaver`` against the same graphs on LangGraph's own PostgreSQL savers, in turns.

As ``bench_langgraph_saver``; their savers have a pool of connections, which they are documented to take.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.benchmarks.engine.bench_langgraph_saver import Theirs, compare, fill_disk, fill_many
from tests.benchmarks.world import Report, set_django_up
from tests.faults.servers import Postgres

POOL = 12
BARS = {"small": 1.0, "hot": 3.0, "cold": 1.0}
"""Their saver stores a channel that does not change once, too."""
GIVEN: dict[str, Any] = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}


def of_postgres(url: str) -> Theirs:
    """Return LangGraph's savers of a database; each time with a new pool."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

    @contextmanager
    def blocking() -> Iterator[Any]:
        with ConnectionPool(url, kwargs=GIVEN, min_size=1, max_size=POOL) as pool:
            saver = PostgresSaver(pool)  # type: ignore[arg-type]
            saver.setup()
            yield saver

    @asynccontextmanager
    async def awaited() -> AsyncIterator[Any]:
        async with AsyncConnectionPool(url, kwargs=GIVEN, min_size=1, max_size=POOL) as pool:
            saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
            await saver.setup()
            yield saver

    return Theirs(bars=BARS, blocking=blocking, awaited=awaited)


def size_of(url: str) -> Callable[[], int]:
    """Return what says the bytes of a database."""

    def look() -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])

    return look


def main() -> int:
    """Measure and print."""
    report = Report("LangGraph on DjangoSaver / on its own saver, PostgreSQL")
    server = Postgres()
    try:
        with tempfile.TemporaryDirectory() as folder:
            url, theirs = server.new_database(), of_postgres(server.new_database())
            set_django_up(WFDASH_DATABASE=url, WFDASH_DATA=folder)
            asyncio.run(compare(theirs, report))
            fill_disk(report, size_of(url))
            asyncio.run(fill_many(report))
    finally:
        server.cleanup()
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

"""Durable steps per second of LangGraph's PostgreSQL savers, as JSON. Stands alone: for any Python that has them.

    echo STEPS RUNS | python peer_langgraph_postgres.py URL

The chain of ``peer_langgraph``; both savers with a pool of connections, which they are documented to take.
"""

from __future__ import annotations

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from peer_langgraph import FIRST, Started, build_chain, next_state, next_state_async
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

POOL = 12
GIVEN: dict[str, Any] = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}


def config(steps: int) -> Any:
    """Return the configuration of a new run."""
    return {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": steps + 10}


def rate_sync(url: str, steps: int, runs: int) -> list[float]:
    """Figures of the synchronous saver, all runs at once in threads (3 runs in turn for one)."""
    with ConnectionPool(url, kwargs=GIVEN, min_size=1, max_size=min(runs, POOL)) as pool:
        saver = PostgresSaver(pool)  # type: ignore[arg-type]
        saver.setup()
        app = build_chain(next_state, steps, saver)
        count = max(runs, 3)
        started = Started()
        with ThreadPoolExecutor(runs) as threads:
            list(threads.map(lambda _: app.invoke(FIRST, config(steps), durability="sync"), range(count)))
        return started.figures(steps * count)


async def rate_async(url: str, steps: int, runs: int) -> list[float]:
    """Figures of the asynchronous saver, all runs at once."""
    async with AsyncConnectionPool(url, kwargs=GIVEN, min_size=1, max_size=min(runs, POOL)) as pool:
        saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
        await saver.setup()
        app = build_chain(next_state_async, steps, saver)
        started = Started()
        await asyncio.gather(*(app.ainvoke(FIRST, config(steps), durability="sync") for _ in range(runs)))
        return started.figures(steps * runs)


def main() -> None:
    """Answer each line ``STEPS RUNS`` with ``{"sync": steps/s, "async": steps/s}``."""
    url = sys.argv[1]
    for line in sys.stdin:
        steps, runs = map(int, line.split())
        rates = {"sync": rate_sync(url, steps, runs), "async": asyncio.run(rate_async(url, steps, runs))}
        print(json.dumps(rates), flush=True)


if __name__ == "__main__":
    main()

"""Connections beside those of a storage: to hold a lock, and to see who waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from django.db import connections

from checkpoints.sql.conninfo import parameters_of

LOCK_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def connected(alias: str) -> psycopg.Connection[Any]:
    return psycopg.connect(**parameters_of(connections[alias].settings_dict))


async def until_one_waits(alias: str) -> None:
    """Return once a transaction of this database waits for a lock."""
    with connected(alias) as watch:
        watch.autocommit = True
        while not watch.execute(LOCK_WAITS).fetchall()[0][0]:
            await asyncio.sleep(0.01)

"""PostgreSQL's NOTIFY and LISTEN as the bus, on two connections of this process's own.

NOTIFY holds a database-wide lock through its commit. So it is in a transaction of its own, which does not wait for the
disk, and many texts are in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import psycopg

from checkpoints.sql.conninfo import application_name
from wfdash.pubsub.bus import Wake

MAX_NOTIFY_BYTES = 7_900
"""NOTIFY takes 7,999 bytes."""
NOTIFY = """
    SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, text)
    FROM unnest(%s::text[]) WITH ORDINALITY AS sent(text, n) ORDER BY n
"""
"""The setting is of this transaction alone: behind a pooler the connection is shared."""
Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresBus:
    """A channel per schema: a database may hold several installations."""

    name = "PostgreSQL"
    remedy = (
        "If WFDASH_DATABASE leads to a pooler in transaction mode, set WFDASH_DATABASE_DIRECT to the address of the "
        "server itself"
    )
    most = MAX_NOTIFY_BYTES

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """``parameters`` are psycopg's, of a connection to the server itself."""
        self._parameters = parameters

    def open_sender(self) -> PostgresSender:
        """Connect."""
        connection = self._connect("signals out")
        return PostgresSender(connection, channel_of(connection))

    def open_listener(self) -> PostgresListener:
        """Connect and listen."""
        connection = self._connect("signals in")
        channel = channel_of(connection)
        connection.execute(f"LISTEN {channel}")
        return PostgresListener(connection, channel)

    def _connect(self, part: str) -> Connection:
        given = {**self._parameters, "fallback_application_name": application_name(part)}
        return psycopg.Connection.connect(**given, autocommit=True)


class _OverPostgres:
    def __init__(self, connection: Connection, channel: str) -> None:
        self._connection, self._channel = connection, channel

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PostgresSender(_OverPostgres):
    """Sends by NOTIFY."""

    def send(self, texts: Sequence[str]) -> None:
        """Send texts in one transaction."""
        self._connection.execute(NOTIFY, (self._channel, list(texts)))


class PostgresListener(_OverPostgres):
    """Receives by LISTEN."""

    def receive(self, wake: Wake, seconds: float) -> Sequence[str]:
        """Return what has come, or nothing after so many seconds."""
        wake.wait(self._connection.fileno(), seconds)
        return [one.payload for one in self._connection.notifies(timeout=0)]


def channel_of(connection: Connection) -> str:
    """Return the channel of the schema that holds the tables."""
    (schema,) = connection.execute("SELECT coalesce(current_schema(), '')").fetchone() or ("",)
    return f"wfdash_{sha256(schema.encode()).hexdigest()[:16]}"

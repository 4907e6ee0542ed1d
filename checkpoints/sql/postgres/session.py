"""What PostgreSQL is asked to do for our connections: wait for the disk at each commit, and drop those that hang.

A direct connection is set up once, for as long as it lives. Behind a pooler in transaction mode (pgbouncer) what a
client sets lands on whichever server connection comes by, and prepared statements are another client's: there each
transaction sets what it needs for itself.
"""

from __future__ import annotations

from functools import lru_cache

IDLE_IN_TRANSACTION_TIMEOUT = 10.0
"""Seconds a transaction may wait for its client: locks of a frozen process are released then, as is its claim."""
TRANSACTION_TIMEOUT = 30.0
"""Seconds a transaction may take in all (PostgreSQL 17+): a process may also freeze in the middle of a pipeline."""
TCP_KEEPALIVES = {"tcp_keepalives_idle": 5, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 2}
"""TCP keepalive settings by which the server drops a client whose machine is unreachable."""
IS_DIRECT = "pg_backend_pid() = {pid}"
"""A pooler gives its clients process numbers of its own."""


def limits(server_version: int) -> dict[str, int]:
    """Return the server's settings that bound our transactions, times in milliseconds."""
    total = {"transaction_timeout": int(TRANSACTION_TIMEOUT * 1000)} if server_version >= 170000 else {}
    return {"idle_in_transaction_session_timeout": int(IDLE_IN_TRANSACTION_TIMEOUT * 1000)} | total


def set_up_session(server_version: int, pid: int) -> str:
    """Return the statement that sets up a new connection, unless it leads through a pooler.

    Its first column says whether it is direct. ``pid``: the server process that the connection claims to lead to.
    """
    return _settings(limits(server_version) | TCP_KEEPALIVES, when=IS_DIRECT.format(pid=int(pid)), local=False)


@lru_cache(maxsize=8)
def set_up_transaction(server_version: int) -> str:
    """Return the statement that sets up one transaction on a connection that others share."""
    return _settings(limits(server_version), when="true", local=True)


def _settings(values: dict[str, int], *, when: str, local: bool) -> str:
    """Return one SELECT of these settings. ``local``: until the transaction's end."""
    end = f"{str(local).lower()}) END"
    columns = [f"CASE WHEN {when} THEN set_config('{name}', '{value}', {end}" for name, value in values.items()]
    unsafe = f"{when} AND current_setting('synchronous_commit') = 'off'"
    flushed = f"CASE WHEN {unsafe} THEN set_config('synchronous_commit', 'on', {end}"
    return ", ".join([f"SELECT {when}", flushed, *columns])

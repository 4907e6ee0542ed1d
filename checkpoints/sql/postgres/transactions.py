"""Runs scripts on a connection of PostgreSQL: a script that begins with a whole batch in one round trip, others in one
transaction, each batch of theirs in one round trip.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors

from checkpoints.sql.postgres.prepared import Connection, can_prepare, fetch
from checkpoints.sql.postgres.session import set_up_transaction
from checkpoints.sql.reads import Script
from checkpoints.sql.statements import Rows, Statement
from checkpoints.sql.whole_step import WholeBatch

MANY_ROWS = 250
"""Rows of a batch that a script is handed on the event loop, more in a thread: so many chunks are 256 KB of state."""
ASYNC_COMMIT = "SET LOCAL synchronous_commit TO off"
"""Statement that lets this transaction's commit return before it is flushed to disk."""
LOCK_TIMEOUT = "SET LOCAL lock_timeout TO '50ms'"
"""Statement that limits lock waits in a shared transaction: one blocked script would block all of them."""


class GroupRolledBack(Exception):
    """A shared transaction was rolled back before COMMIT: nothing of it was stored."""


class BegunScript:
    """A script, the batch it waits for, and its result once it has ended."""

    __slots__ = ("batch", "committed", "is_large", "result", "script")

    def __init__(self, script: Script[Any]) -> None:
        self.script = script
        self.batch: Sequence[Statement] | None = None
        """None once it has ended."""
        self.result: Any = None
        self.committed = False
        """Whether what it wrote is stored."""
        self.is_large = False
        """Whether it has read more rows than an event loop waits for it to understand."""
        self.resume(None)

    @property
    def is_whole(self) -> bool:
        """Whether its batch is one that needs no transaction around it."""
        return isinstance(self.batch, WholeBatch)

    def resume(self, rows: list[Rows] | None) -> None:
        """Hand it the rows of its batch. Its errors are raised."""
        try:
            self.batch = self.script.send(rows)  # type: ignore[arg-type]
        except StopIteration as end:
            self.batch, self.result = None, end.value


async def run_script(connection: Connection, script: Script[Any], *, flush: bool = True) -> Any:
    """Return the result of a script, run alone. ``flush``: its commit waits for the disk."""
    begun = BegunScript(script)
    await run_scripts(connection, [begun], flush=flush)
    return begun.result


async def run_scripts(connection: Connection, scripts: Sequence[BegunScript], *, flush: bool = True) -> None:
    """Run scripts to their ends: in one transaction those that are whole, in another the others.

    ``GroupRolledBack`` if several scripts were rolled back before COMMIT; a single script raises its own error. Those
    that are stored are ``committed`` either way.
    """
    try:
        hurried = len(scripts) > 1
        if whole := [one for one in scripts if one.is_whole]:
            await _write_whole(connection, whole, flush=flush, hurried=hurried)
        if rest := [one for one in scripts if not one.committed]:
            await _transact(connection, rest, flush=flush, hurried=hurried)
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            await connection.rollback()
        raise


async def _write_whole(connection: Connection, scripts: Sequence[BegunScript], *, flush: bool, hurried: bool) -> None:
    """Run the first batches of these scripts in one round trip; those that wrote nothing wait for their next batch."""
    statements = [statement for one in scripts for statement in one.batch or ()]
    try:
        found = await _written(connection, statements, flush=flush, hurried=hurried)
    except errors.IntegrityError:
        await connection.rollback()
        found = [[] for _ in statements]
    except psycopg.Error as error:
        if not hurried or not _has_rolled_back(error):
            raise
        raise GroupRolledBack from error
    for one, rows in zip(scripts, found, strict=True):
        one.resume([rows])
        one.committed = one.batch is None


def _has_rolled_back(error: psycopg.Error) -> bool:
    """Return whether it is sure that nothing was stored: a server that ends the connection may have committed before,
    and what is written again then would find itself, and fail its run.
    """
    return isinstance(error, errors.PipelineAborted) or error.diag.severity_nonlocalized == "ERROR"


async def _written(
    connection: Connection, statements: Sequence[Statement], *, flush: bool, hurried: bool
) -> list[Rows]:
    """Return the rows of statements that are committed in the same round trip."""
    if len(statements) == 1 and flush and not hurried and can_prepare(connection, statements[0][1]):
        return [await fetch(connection, *statements[0])]
    async with connection.pipeline() as pipeline:
        await _begin(connection, flush=flush, hurried=hurried)
        cursors = [await connection.execute(sql, params) for sql, params in statements]
        await connection.execute("COMMIT")
        await pipeline.sync()
        return [await cursor.fetchall() for cursor in cursors]


async def _transact(connection: Connection, scripts: Sequence[BegunScript], *, flush: bool, hurried: bool) -> None:
    """Run scripts in one transaction side by side: the next batch of each in one round trip."""
    async with connection.pipeline() as pipeline:
        try:
            await _begin(connection, flush=flush, hurried=hurried)
            while waiting := [one for one in scripts if one.batch is not None]:
                sent = [[await connection.execute(sql, params) for sql, params in one.batch or ()] for one in waiting]
                await pipeline.sync()
                for one, cursors in zip(waiting, sent, strict=True):
                    found = [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
                    one.is_large = one.is_large or max(map(len, found), default=0) > MANY_ROWS
                    if one.is_large:
                        await asyncio.to_thread(one.resume, found)
                    else:
                        one.resume(found)
        except Exception as error:
            if not hurried:
                raise
            raise GroupRolledBack from error
        await connection.execute("COMMIT")
    for one in scripts:
        one.committed = True


async def _begin(connection: Connection, *, flush: bool, hurried: bool) -> None:
    await connection.execute("BEGIN")
    if connection.prepare_threshold is None:
        await connection.execute(set_up_transaction(connection.info.server_version))
    if not flush:
        await connection.execute(ASYNC_COMMIT)
    if hurried:
        await connection.execute(LOCK_TIMEOUT)

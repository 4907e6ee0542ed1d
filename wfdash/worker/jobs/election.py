"""Of the workers that have loaded the same workflows one leads: it alone looks for what is due, on behalf of all.

Two that lead for a moment do no harm: whatever is due is done once, by a conditional update. So a worker that was
frozen needs no fence, and one that is killed is followed by another within ``LEAD_SECONDS``. What needs an author's
code is done by a worker that has it, because those with other code have a leader of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256

from checkpoints.database.alias import connection
from checkpoints.models import Leader
from wfdash import catalog
from wfdash.installation.stopping import waited
from wfdash.worker.jobs.db_thread import DbThread

log = logging.getLogger(__name__)

LEAD_SECONDS = 4.0
"""How long a worker leads without renewing that."""
RENEW_SECONDS = 1.5
SOON = 0.05
TABLE = Leader._meta.db_table
LEAD = f"""
    WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO {TABLE} AS leader (code, worker, until)
    SELECT %s, %s, clock_timestamp() + {LEAD_SECONDS} * interval '1 second' FROM quick
    ON CONFLICT (code) DO UPDATE SET worker = excluded.worker, until = excluded.until
    WHERE leader.worker = excluded.worker OR leader.until <= clock_timestamp()
    RETURNING 1
"""  # noqa: S608
"""A lease that a power failure loses is taken again, so it does not wait for the disk."""
ANOTHER = f"SELECT extract(epoch FROM until - clock_timestamp()) FROM {TABLE} WHERE code = %s AND worker <> %s"  # noqa: S608
GIVE_UP = f"DELETE FROM {TABLE} WHERE worker = %s"  # noqa: S608
FORGET = f"DELETE FROM {TABLE} WHERE until < clock_timestamp() - interval '1 day'"  # noqa: S608
Serve = Callable[[asyncio.Event, DbThread], Awaitable[None]]


async def lead_until(stopping: asyncio.Event, worker: str, serve: Serve) -> None:
    """Call ``serve(halt, thread)`` whenever this worker leads, until stopped. ``halt`` is set when it leads no more."""
    thread, leading = DbThread("wfdash-sweeps"), _Leading(serve)
    try:
        while not stopping.is_set():
            pause = RENEW_SECONDS
            try:
                wait = await thread.repeat(partial(take_lead, worker, leads=leading.now))
                await leading.set(not wait, thread)
                # Not all others at the same moment.
                pause = wait + random.uniform(0.01, 0.1) if wait else RENEW_SECONDS  # noqa: S311
            except Exception:
                # Until the database is there again, what a leader does fails as well, or does no harm.
                log.exception("Could not find out which worker looks for what is due; retrying")
            await waited(stopping, pause)
        await leading.set(False, thread)
        with contextlib.suppress(Exception):
            await thread.repeat(partial(give_up_lead, worker))
    finally:
        await leading.cancel()
        await thread.aclose(wait=False)


def take_lead(worker: str, *, leads: bool) -> float:
    """Lead for ``LEAD_SECONDS`` from now on and return 0; where another worker with the same code does, return the
    seconds that it still has.

    One statement for a worker that ``leads`` already, and for one that may not. On SQLite all lead, without asking.
    """
    if connection().vendor == "sqlite":
        return 0.0
    code = code_here()
    if not leads and (left := _seconds_of_another(code, worker)) > 0:
        return left
    with connection().cursor() as cursor:
        cursor.execute(LEAD, [code, worker])
        took = cursor.fetchone() is not None
        if took and not leads:
            cursor.execute(FORGET)
    return 0.0 if took else max(SOON, _seconds_of_another(code, worker))


def give_up_lead(worker: str) -> None:
    """Let another worker lead as soon as it asks."""
    if connection().vendor != "sqlite":
        with connection().cursor() as cursor:
            cursor.execute(GIVE_UP, [worker])


def code_here() -> str:
    """Return a hash of the workflows that are loaded here, and their versions."""
    found = sorted((one.name, one.description.version) for one in catalog.load().entries.values())
    return sha256(json.dumps(found).encode()).hexdigest()


def _seconds_of_another(code: str, worker: str) -> float:
    with connection().cursor() as cursor:
        cursor.execute(ANOTHER, [code, worker])
        row = cursor.fetchone()
    return float(row[0]) if row else 0.0


class _Leading:
    """What a worker does while it leads. Where that ends with an error it begins again, with the next renewal."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._halt = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def now(self) -> bool:
        """Whether it does that."""
        return self._task is not None and not self._task.done()

    async def set(self, leads: bool, thread: DbThread) -> None:
        """Begin, or end and wait for what is being done; nothing if it is so already."""
        if leads and not self.now:
            self._halt = asyncio.Event()
            self._task = asyncio.create_task(self._do(self._halt, thread), name="lead")
        elif not leads and self._task is not None:
            self._halt.set()
            task, self._task = self._task, None
            await task

    async def _do(self, halt: asyncio.Event, thread: DbThread) -> None:
        try:
            await self._serve(halt, thread)
        except Exception:
            log.exception("Looking for what is due, on behalf of all workers, has ended; it begins again")

    async def cancel(self) -> None:
        """End at once; only what a thread does at this moment is waited for."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

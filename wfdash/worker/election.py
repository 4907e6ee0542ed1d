"""Of the workers that have loaded the same workflows one leads: it alone looks for what is due, on behalf of all.

Two that lead for a moment do no harm: whatever is due is done once, by a conditional update. So a worker that was
frozen needs no fence, and one that is killed is followed by another within ``LEAD_SECONDS``. One that is stopped says
so: another leads within half a second. What needs an author's code is done by a worker that has it, because those with
other code have a leader of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from hashlib import sha256

from checkpoints.database.alias import connection
from checkpoints.models import Leader
from checkpoints.records import Pairs
from checkpoints.sql.claims import SideStatement
from checkpoints.sql.statements import Rows
from wfdash import pubsub
from wfdash.engines import catalog
from wfdash.installation.stopping import waited
from wfdash.pubsub.hints import subscribe
from wfdash.telemetry.logs import FailingLoop
from wfdash.worker.db_thread import DbThread

log = logging.getLogger(__name__)

LEAD_SECONDS = 4.5
"""How long a worker leads without renewing that: a renewal is heard of by each idle look of the others."""
RENEW_SECONDS = 1.5
SECONDS_APART = 0.1, 0.3
"""Seconds after which the others ask for a lead that has ended, between these two: not all at the same moment."""
FAILED = "Could not find out which worker looks for what is due; retrying each 1.5 s"
SOON_SECONDS = 0.05
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
GIVE_UP = f"DELETE FROM {TABLE} WHERE worker = %s RETURNING code"  # noqa: S608
FORGET = f"DELETE FROM {TABLE} WHERE until < clock_timestamp() - interval '1 day'"  # noqa: S608
Serve = Callable[[asyncio.Event, DbThread], Awaitable[None]]


class Election:
    """Whether this worker leads: ``serve(halt, thread)`` runs while it does, and ``halt`` is set when another may.

    One that follows learns with its looks for runs how long another leads, and by a signal that it leads no more. Only
    when that may be over it asks.
    """

    def __init__(self, worker: str, serve: Serve) -> None:
        self._worker = worker
        self._leading = _Leading(serve)
        self._alone = connection().vendor == "sqlite"
        self._others_until = 0.0
        """When the lease of another may end, by ``time.monotonic()``."""
        self._vacant = asyncio.Event()
        """Set when it is known to have ended."""

    @property
    def leads(self) -> bool:
        """Whether it leads now."""
        return self._leading.now

    def side_statements(self) -> list[SideStatement]:
        """Return what is to be read with a look for runs."""
        if self._alone or self.leads:
            return []
        return [SideStatement((ANOTHER, (code_here(), self._worker)), self._hear)]

    async def run_until(self, stopping: asyncio.Event) -> None:
        """Lead whenever no other worker does, until stopped."""
        thread, loop = DbThread("wfdash-sweeps"), FailingLoop(log, FAILED)
        leave = subscribe(self._hear_end, pubsub.lead_ended)
        try:
            while not stopping.is_set():
                try:
                    if self.leads or time.monotonic() >= self._others_until:
                        await self._ask(thread)
                    loop.works()
                except Exception as error:
                    # Until the database is there again, what a leader does fails as well, or does no harm.
                    loop.failed(error)
                wait = self._others_until - time.monotonic()
                # The next look, as a rule, has heard of a renewal before.
                await self._rest(stopping, wait + _apart() if wait > 0 else RENEW_SECONDS)
            await self._leading.set(False, thread)
            with contextlib.suppress(Exception):
                await thread.repeat(partial(give_up_lead, self._worker))
        finally:
            leave()
            await self._leading.cancel()
            await thread.aclose(wait=False)

    async def _rest(self, stopping: asyncio.Event, seconds: float) -> None:
        """Return after so many seconds, a moment after another leads no more, or when this worker stops."""
        calls = [asyncio.create_task(event.wait()) for event in (stopping, self._vacant)]
        try:
            await asyncio.wait(calls, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for call in calls:
                call.cancel()
        if self._vacant.is_set():
            await waited(stopping, _apart())
            # Another may have taken it by now, as a look has found: then this one rests as long as that leads.
            self._vacant.clear()

    async def _ask(self, thread: DbThread) -> None:
        self._vacant.clear()
        wait = await thread.repeat(partial(take_lead, self._worker, leads=self.leads))
        # What was heard in the meantime is newer than the answer.
        self._others_until = time.monotonic() + (0.0 if self._vacant.is_set() else wait)
        await self._leading.set(not wait, thread)

    def _hear(self, rows: Rows) -> None:
        if not self.leads:
            left = _seconds_in(rows)
            self._others_until = time.monotonic() + left
            if left <= 0:
                self._vacant.set()

    def _hear_end(self, code: str) -> None:
        if not self.leads and code == code_here():
            self._others_until = time.monotonic()
            self._vacant.set()


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
    return 0.0 if took else max(SOON_SECONDS, _seconds_of_another(code, worker))


def give_up_lead(worker: str) -> None:
    """Let another worker lead instead of this one, if it does, and let the others know."""
    if connection().vendor == "sqlite":
        return
    with connection().cursor() as cursor:
        cursor.execute(GIVE_UP, [worker])
        led = cursor.fetchall()
    for (code,) in led:
        pubsub.lead_ended.publish(code)


def code_here() -> str:
    """Return a hash of the workflows that are loaded here, and their versions."""
    return _hash_of(tuple(sorted((one.name, one.description.version) for one in catalog.load().entries.values())))


@lru_cache(maxsize=1)
def _hash_of(loaded: Pairs) -> str:
    return sha256(json.dumps(loaded).encode()).hexdigest()


def _seconds_of_another(code: str, worker: str) -> float:
    with connection().cursor() as cursor:
        cursor.execute(ANOTHER, [code, worker])
        return _seconds_in(cursor.fetchall())


def _seconds_in(rows: Rows) -> float:
    """Return the seconds that ``ANOTHER`` found."""
    return max((float(left) for (left,) in rows), default=0.0)


def _apart() -> float:
    return random.uniform(*SECONDS_APART)  # noqa: S311 (not all at the same moment)


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

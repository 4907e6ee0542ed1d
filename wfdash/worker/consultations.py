"""Replies to servers that have not loaded the workflows of this worker, in threads that exist while there is work."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from django.conf import settings
from django.db.models import Exists, OuterRef

from checkpoints.database.clock import database_now
from checkpoints.database.living_workers import served
from checkpoints.database.storage import write
from checkpoints.models import Consultation, PublishedWorkflow, Run
from checkpoints.sql.claims import SideStatement
from checkpoints.sql.statements import Rows
from wfdash import pubsub
from wfdash.engines.catalog import ASKING, Entry
from wfdash.engines.published import CODE, UNSERVED, Published, Unpublishable, abilities_of, document_of
from wfdash.installation.stopping import waited
from wfdash.pubsub.hints import subscribe
from wfdash.pubsub.process import signals
from wfdash.queries.workers import CANDIDATE_QUESTIONS, reply_next
from wfdash.telemetry.logs import FailingLoop
from wfdash.worker.db_thread import DbThread
from wfdash.worker.serving import Serving

log = logging.getLogger(__name__)

MAX_ANSWERED_AT_ONCE = 2
"""Questions that are answered at a time."""
SERIES_SECONDS, SERIES_LOOK_SECONDS = 1.0, 0.05
"""Where no signals arrive one looks so often for so long after each question: a page asks several."""
IDLE_SECONDS = 30.0
"""A thread without work ends after so long, and its connection with it."""
SLOW_SECONDS = 10.0
"""The log names code that takes longer: no server waits for it any more."""


OPEN = f"SELECT workflow, version FROM {Consultation._meta.db_table} WHERE worker = '' LIMIT {CANDIDATE_QUESTIONS}"  # noqa: S608


class Replies:
    """Threads that reply to servers about the workflows here: ``MAX_ANSWERED_AT_ONCE``. Use it on one event loop."""

    def __init__(self, worker: str, serving: Serving) -> None:
        self._worker, self._serving = worker, serving
        self._due: asyncio.Queue[None] = asyncio.Queue(MAX_ANSWERED_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = 0
        self._loop = FailingLoop(log, "Could not reply to a server; retrying")

    async def reply_until(self, stopping: asyncio.Event) -> None:
        """Reply to what is signalled, or found by a look for runs, until stopped."""
        leave = subscribe(self._hear, pubsub.consultations_due)
        try:
            await stopping.wait()
        finally:
            leave()
            await self.aclose()

    def side_statements(self) -> list[SideStatement]:
        """Return what is to be read with a look for runs: what servers ask, where no signal says so."""
        return [] if signals.arrive else [SideStatement((OPEN, ()), self._hear_open)]

    def _hear_open(self, rows: Rows) -> None:
        for workflow, version in rows:
            self._hear(workflow, version)

    def _hear(self, workflow: str, version: str) -> None:
        if self._serving.loaded().get(workflow) == version:
            self.begin()

    def begin(self) -> None:
        """Look for questions: in a thread that has nothing to do, or in a new one."""
        if not self._due.full():
            self._due.put_nowait(None)
        if not self._idle and len(self._tasks) < MAX_ANSWERED_AT_ONCE:
            task = asyncio.create_task(self._reply_while_due(), name="replies to servers")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Look for nothing more. What author's code is asked now is left to end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _reply_while_due(self) -> None:
        thread = DbThread("wfdash-replies")
        try:
            while await self._is_due():
                await self._reply_to_series(thread)
        finally:
            await thread.aclose(wait=False)

    async def _reply_to_series(self, thread: DbThread) -> None:
        clock = asyncio.get_running_loop().time
        last = -math.inf
        while True:
            if await self._reply(thread):
                last = clock()
            elif signals.arrive or clock() - last > SERIES_SECONDS:
                return
            else:
                await asyncio.sleep(SERIES_LOOK_SECONDS)

    async def _is_due(self) -> bool:
        """Wait until there may be a question; False if there was none for ``IDLE_SECONDS``."""
        self._idle += 1
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._due.get()
        except TimeoutError:
            return False
        finally:
            self._idle -= 1
        return True

    async def _reply(self, thread: DbThread) -> bool:
        begun: list[str] = []
        reply = partial(reply_next, self._worker, self._serving.entries(), begun=begun.append)
        call = asyncio.ensure_future(thread.call(reply))
        try:
            await asyncio.wait({call}, timeout=SLOW_SECONDS)
            if not call.done():
                what = ", ".join(begun) or "Looking for questions"
                log.error("%s takes longer than %g s: one thread fewer replies until it ends", what, SLOW_SECONDS)
            found = await call
        except Exception as error:
            self._loop.failed(error)
            return False
        finally:
            call.cancel()
        self._loop.works()
        return found


# -- the workflows of this worker are published as JSON, so that servers need not load their code

PUBLISH_SECONDS = 60.0
RETRY_SECONDS = 5.0
FAILED = "Could not publish the workflows of this worker; retrying each %g s"


async def publish_until(stopping: asyncio.Event, serving: Serving) -> None:
    """Publish what the worker has at its start, and say every minute that it has it, until stopped."""
    thread, loop = DbThread("wfdash-publish"), FailingLoop(log, FAILED, RETRY_SECONDS)
    begins = True
    try:
        while not stopping.is_set():
            try:
                await thread.call(lambda begins=begins: publish(serving.entries(), begins=begins))  # type: ignore[misc]
                begins, pause = False, PUBLISH_SECONDS
                loop.works()
            except Exception as error:
                # Servers show what was published before: not for a minute.
                pause = RETRY_SECONDS
                loop.failed(error)
            await waited(stopping, pause)
    finally:
        await thread.aclose(wait=False)


def publish(entries: Iterable[Entry], *, begins: bool) -> None:
    """Write what has changed, and that all of it was seen; of two versions the one whose worker began last stays.

    A worker that does not begin replaces only what no other one has any more. Two transactions, one to remove what is
    gone.
    """
    # Every server has the workflow with which programs ask people, unless its own setting forbids it.
    mine = {entry.name: _row(entry) for entry in entries if entry.source not in ASKING}
    with write():
        now = database_now()
        written = list(_news(mine, begins=begins))
        for row in written:
            row.seen = now
        PublishedWorkflow.objects.bulk_create(
            written,
            update_conflicts=True,
            unique_fields=["workflow"],
            update_fields=["version", "hash", "document", "seen"],
        )
        PublishedWorkflow.objects.filter(workflow__in=mine).update(seen=now)
    with write():
        # In a transaction of its own: it may wait for what others have locked, and must hold nothing that they need.
        gone = PublishedWorkflow.objects.filter(seen__lt=now - UNSERVED)
        # As long as there are runs their secrets are masked by it.
        gone.exclude(Exists(Run.objects.filter(workflow=OuterRef("workflow")))).delete()


def _news(mine: Mapping[str, PublishedWorkflow], *, begins: bool) -> Iterator[PublishedWorkflow]:
    # Locked in one order by all: workers that begin together would wait for each other.
    rows = PublishedWorkflow.objects.filter(workflow__in=mine).order_by("workflow").select_for_update()
    known = {row.workflow: row for row in rows.defer("document")}
    alive = {pair for one in served() for pair in (one or {}).items()}
    for name, row in sorted(mine.items()):
        old = known.get(name)
        if old is None or (old.hash != row.hash and (begins or (name, old.version) not in alive)):
            yield row


def _row(entry: Entry) -> PublishedWorkflow:
    secrets = tuple(sorted(entry.secrets))
    shown = (CODE,) if entry.code and settings.WFDASH_SHOW_CODE else ()
    abilities = (*abilities_of(entry.engine), *shown)
    full = Published(description=entry.description, secrets=secrets, abilities=abilities, addressees=entry.addressees)
    try:
        document, digest = document_of(full)
    except Unpublishable as error:
        log.error("Workflow %s is not published: %s", entry.name, error)
        document, digest = document_of(Published(description=None, secrets=secrets))
    return PublishedWorkflow(workflow=entry.name, version=entry.description.version, hash=digest, document=document)

"""Publishes the workflows of this worker, so that servers need not load their code: descriptions, as JSON."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping

from django.conf import settings
from django.db.models import Exists, OuterRef

from checkpoints.database.clock import database_now
from checkpoints.database.living_workers import served
from checkpoints.database.storage import write
from checkpoints.models import PublishedWorkflow, Run
from wfdash.catalog import ASKING, Entry
from wfdash.engines.consultation import CODE, abilities_of
from wfdash.engines.published import UNSERVED, Published, Unpublishable, document_of
from wfdash.installation.stopping import waited
from wfdash.telemetry.outages import FailingLoop
from wfdash.worker.jobs.db_thread import DbThread
from wfdash.worker.serving import Serving

log = logging.getLogger(__name__)

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
    mine = {entry.name: _row(entry) for entry in entries if entry.source != ASKING}
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

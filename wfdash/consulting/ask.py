"""The server's half: writes what it asks, signals it, and waits for the reply; withdraws it when none comes in time."""

from __future__ import annotations

import time
from threading import BoundedSemaphore, Event

from django.db.models.functions import Now
from pydantic import ValidationError

from checkpoints.database.alias import connection
from checkpoints.database.living_workers import served
from checkpoints.database.storage import write
from checkpoints.ids import new_token
from checkpoints.models import Consultation
from checkpoints.records import Json, Record
from wfdash import pubsub
from wfdash.engines.consultation import OTHER_RELEASE, WorkerReply, is_too_large
from wfdash.errors import CodeElsewhere
from wfdash.pubsub.process import signals

PATIENCE = 5.0
"""Seconds for a reply without which nothing can be done."""
SHORT_PATIENCE = 1.5
"""Seconds for one that a schema can stand in for."""
SILENCE = 5.0
"""After a question without a reply nothing is asked for so many seconds that a schema can stand in for."""
MOST = 4
"""Questions of this process at a time: half of the threads that answer pages."""
CROWD_SECONDS = 0.5
"""For one of them to end."""
FIRST_LOOK, LOOKS = 0.02, 0.25
"""Seconds until the first look for a reply, and between looks at most: where signals arrive they are not needed."""
SIGNAL_SECONDS = 0.5
"""Between two signals of a question that no worker has taken."""

NO_WORKER = "no running worker has loaded this version of it. Nothing was changed. Start one, then try again"
SILENT = f"no worker answered within {PATIENCE:g} seconds. Nothing was changed. Try again in a moment"
CROWDED = "this server waits for too many answers of workers. Nothing was changed. Try again in a moment"
TOO_LARGE = (
    "more than 16 MB would have to be sent to a worker. Nothing was changed. Name its files to wfdash web, or in"
    " WFDASH_WORKFLOWS, and start it again"
)


class WorkerConsult:
    """Asks living workers. For any thread; one per process."""

    def __init__(self) -> None:
        self._places = BoundedSemaphore(MOST)
        self._silent: dict[tuple[str, str], float] = {}
        """Workflow and version -> when a question about it was last left without a reply."""

    def __call__(
        self, workflow: str, version: str, ability: str, given: Record, *, required: bool
    ) -> WorkerReply | None:
        """Return the reply of a worker that has this version of a workflow; None where none comes and none is
        ``required``, ``CodeElsewhere`` with the reason where one is. Three queries, and two small transactions.
        """
        if connection().in_atomic_block:
            if required:
                raise RuntimeError(f"{ability} was asked inside a transaction, which would hold its locks")
            return None
        if not required and time.monotonic() - self._silent.get((workflow, version), -SILENCE) < SILENCE:
            return None
        reason, reply = self._ask(workflow, version, ability, given, PATIENCE if required else SHORT_PATIENCE)
        if reply is None and required:
            raise CodeElsewhere(f"This needs the code of {workflow!r}, and {reason}")
        return reply

    def _ask(
        self, workflow: str, version: str, ability: str, given: Record, patience: float
    ) -> tuple[str, WorkerReply | None]:
        """Return the reply, or why there is none."""
        document = given.model_dump(mode="json")
        if is_too_large(document):
            return TOO_LARGE, None
        if not any(one is not None and one.get(workflow) == version for one in served()):
            return NO_WORKER, None
        if not self._places.acquire(timeout=CROWD_SECONDS):
            return CROWDED, None
        try:
            reply = self._exchange(workflow, version, ability, document, time.monotonic() + patience)
        finally:
            self._places.release()
        if reply is None:
            self._silent[workflow, version] = time.monotonic()
        elif reply.unread:
            return OTHER_RELEASE, None
        return SILENT, reply

    def _exchange(self, workflow: str, version: str, ability: str, given: Json, deadline: float) -> WorkerReply | None:
        row = Consultation(
            id=new_token(), workflow=workflow, version=version, ability=ability, given=given, created=Now()
        )
        replied = Event()
        leave = pubsub.consultations_ended.subscribe(lambda one: replied.set() if one == row.id else None)
        try:
            with write():
                row.save(force_insert=True)
            return _wait(row, replied, deadline)
        finally:
            leave()
            with write():
                Consultation.objects.filter(pk=row.id).delete()


def _wait(row: Consultation, replied: Event, deadline: float) -> WorkerReply | None:
    """Return the reply, None once the time is over. What was not taken is signalled again and again."""
    pause, signalled, taken = FIRST_LOOK, 0.0, False
    while (now := time.monotonic()) < deadline:
        if not taken and now - signalled >= SIGNAL_SECONDS:
            pubsub.consultations_due.publish(row.workflow, row.version)
            signalled = now
        replied.wait(min(LOOKS if signals.arrive else pause, deadline - now))
        replied.clear()
        pause = min(2 * pause, LOOKS)
        found = Consultation.objects.only("id", "worker", "reply").filter(pk=row.id).first()
        if found is None:
            return None
        if found.reply is not None:
            return _read(found.reply)
        taken = bool(found.worker)
    return None


def _read(document: Json) -> WorkerReply:
    try:
        return WorkerReply.model_validate(document)
    except ValidationError:
        return WorkerReply(unread=True)

"""Which workers live and what they serve; and consultations: what a server asks of one that has a workflow's code.

The server waits for seconds, and never inside a transaction, which would hold its locks so long: there a schema judges
what it can, and anything else is an error of this code. What is asked changes nothing: the server acts on the reply in
a transaction of its own, as one that has the code does. ``ask`` is the server's half, ``reply`` the worker's.

A worker takes the row by a conditional update, so one replies. Two signals carry it, the server's again each half
second until a worker has the question; without signals workers look each second. A question that a worker cannot read
is opened again with that worker's name, for the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from threading import BoundedSemaphore, Event
from typing import Any

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Now
from pydantic import ValidationError

from checkpoints.database.alias import connection
from checkpoints.database.clock import database_now
from checkpoints.database.living_workers import living, served, served_workflows
from checkpoints.database.storage import write
from checkpoints.ids import new_token
from checkpoints.models import Claim, Consultation, Run
from checkpoints.models.fields import encrypted_for
from checkpoints.records import Json, Record, frozen
from wfdash import pubsub
from wfdash.domain.errors import CodeElsewhere
from wfdash.engines.catalog import Entry
from wfdash.engines.published import CODE, OTHER_RELEASE, WorkerReply, is_too_large, perform, reply_with_code
from wfdash.pubsub.process import signals


@frozen
class WorkerRow:
    """A worker process, as it reports itself."""

    name: str
    started: datetime
    seen: datetime
    runs: int
    late: float


def workers(now: datetime) -> list[WorkerRow]:
    """Return the live workers, the most recent heartbeat first (one query). ``now``: the database's time."""
    return [
        WorkerRow(name=row.pk, started=row.started, seen=row.seen, runs=row.runs, late=row.late)
        for row in living(now).defer("serves").order_by("-seen")[:100]
    ]


def unserved(workflows: Iterable[str]) -> frozenset[str]:
    """Return those of these workflows that no live worker claims (two queries, if there are any workflows)."""
    asked = frozenset(workflows)
    known = served_workflows() if asked else None
    return asked - known if known is not None else frozenset()


def with_workflow(claims: QuerySet[Claim]) -> QuerySet[Any, Any]:
    """Return claims, in no order, each with the ``workflow`` of its run.

    Not a join: SQLite would begin at the runs, in the index that has them by workflow, and read it from end to end.
    """
    runs = Run.objects.filter(pk=OuterRef("run_id")).values("workflow")
    return claims.annotate(workflow=Subquery(runs)).order_by()


# The worker's half: takes what servers ask of the workflows that it has, and writes what their engines reply.

log = logging.getLogger(__name__)

CANDIDATE_QUESTIONS = 100
"""Questions among which a worker looks for one that it can answer."""
QUESTION_LIFETIME = timedelta(minutes=1)
"""A question is removed after so long: the server that asked it has ended."""
RESULT_TOO_LARGE = "The result is larger than 16 MB: use a server that has loaded the workflow"


def reply_next(worker: str, entries: Iterable[Entry], *, begun: Callable[[str], object] = str) -> bool:
    """Take the oldest open question about one of these workflows, as it is loaded here, and reply.

    Returns False where there is none. Each is answered by one worker. ``begun`` is called with what is asked before
    that runs.
    """
    known = {(one.name, one.description.version): one for one in entries}
    row = _take(worker, known.keys())
    if row is None:
        return False
    begun(f"{row.ability} of workflow {row.workflow}")
    reply = _reply(known[row.workflow, row.version], row)
    # A server of an earlier release reads it as well, unless it needs what that one does not know.
    document = encrypted_for(Consultation, "reply", reply.model_dump(mode="json", exclude_defaults=True), row.pk)
    with write():
        Consultation.objects.filter(pk=row.pk, worker=worker).update(reply=document)
    pubsub.consultations_ended.publish(row.pk)
    return True


def forget_unread(limit: int) -> int:
    """Remove the oldest questions whose server has ended, at most so many; returns how many."""
    old = Consultation.objects.filter(created__lt=database_now() - QUESTION_LIFETIME).order_by("created")
    found = list(old.values_list("pk", flat=True)[:limit])
    if found:
        with write():
            Consultation.objects.filter(pk__in=found).delete()
    return len(found)


def _take(worker: str, known: Iterable[tuple[str, str]]) -> Consultation | None:
    mine = set(known)
    open_ = Consultation.objects.filter(worker="", workflow__in={name for name, _ in mine}).order_by("created", "pk")
    for one in open_.defer("given")[:CANDIDATE_QUESTIONS]:
        # Nor to those who could not read it, as its server has noted.
        unread_by = one.reply.get("unread_by", ()) if one.reply is not None else ()
        if (one.workflow, one.version) not in mine or worker in unread_by:
            continue
        with write():
            taken = Consultation.objects.filter(pk=one.pk, worker="").update(worker=worker)
        # One that its server withdraws at this moment does not keep the next from a reply.
        if taken and (row := Consultation.objects.filter(pk=one.pk).first()):
            return row
    return None


def _reply(entry: Entry, row: Consultation) -> WorkerReply:
    try:
        if row.ability == CODE:
            return reply_with_code(entry.code if settings.WFDASH_SHOW_CODE else ())
        reply = perform(entry.engine, entry.definition, row.ability, row.given)
        if reply.unread:
            log.error("A server of another release of wfdash asked for %s of workflow %s", row.ability, row.workflow)
        too_large = is_too_large(reply.model_dump(mode="json"))
        return WorkerReply(refusal="Unsupported", words=RESULT_TOO_LARGE) if too_large else reply
    except Exception as error:
        log.exception("Could not answer a server: %s of workflow %s", row.ability, row.workflow)
        return WorkerReply(failure=type(error).__name__)


# The server's half: writes what it asks, signals it, and waits for the reply; withdraws it when none comes in time.

REPLY_SECONDS = 5.0
"""Seconds for a reply without which nothing can be done."""
SHORT_PATIENCE = 1.5
"""Seconds for one that a schema can stand in for."""
SILENT_SECONDS = 5.0
"""After a question without a reply nothing is asked for so many seconds that a schema can stand in for."""
MAX_OPEN_QUESTIONS = 4
"""Questions of this process at a time: half of the threads that answer pages."""
CROWD_SECONDS = 0.5
"""For one of them to end."""
FIRST_LOOK, LOOKS = 0.02, 0.25
"""Seconds until the first look for a reply, and between looks at most: where signals arrive they are not needed."""
SIGNAL_SECONDS = 0.5
"""Between two signals of a question that no worker has taken."""

NO_WORKER = "no running worker has loaded this version of it. Nothing was changed. Start one, then try again"
SILENT = f"no worker answered within {REPLY_SECONDS:g} seconds. Nothing was changed. Try again in a moment"
CROWDED = "this server waits for too many answers of workers. Nothing was changed. Try again in a moment"
QUESTION_TOO_LARGE = (
    "more than 16 MB would have to be sent to a worker. Nothing was changed. Name its files to wfdash web, or in"
    " WFDASH_WORKFLOWS, and start it again"
)


class WorkerConsult:
    """Asks living workers. For any thread; one per process."""

    def __init__(self) -> None:
        self._places = BoundedSemaphore(MAX_OPEN_QUESTIONS)
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
        if not required and time.monotonic() - self._silent.get((workflow, version), -SILENT_SECONDS) < SILENT_SECONDS:
            return None
        reason, reply = self._ask(workflow, version, ability, given, REPLY_SECONDS if required else SHORT_PATIENCE)
        if reply is None and required:
            raise CodeElsewhere(f"This needs the code of {workflow!r}, and {reason}")
        return reply

    def _ask(
        self, workflow: str, version: str, ability: str, given: Record, patience: float
    ) -> tuple[str, WorkerReply | None]:
        """Return the reply, or why there is none."""
        document = given.model_dump(mode="json")
        if is_too_large(document):
            return QUESTION_TOO_LARGE, None
        workers = sum(one is not None and one.get(workflow) == version for one in served())
        if not workers:
            return NO_WORKER, None
        if not self._places.acquire(timeout=CROWD_SECONDS):
            return CROWDED, None
        try:
            row = Consultation(
                id=new_token(), workflow=workflow, version=version, ability=ability, given=document, created=Now()
            )
            reply = _exchange(row, workers, time.monotonic() + patience)
        finally:
            self._places.release()
        if reply is None or (reply.unread and len(reply.unread_by) < workers):
            # Of those that have the version one said nothing.
            self._silent[workflow, version] = time.monotonic()
        return (OTHER_RELEASE, None) if reply is not None and reply.unread else (SILENT, reply)


def _exchange(row: Consultation, workers: int, deadline: float) -> WorkerReply | None:
    replied = Event()
    leave = pubsub.consultations_ended.subscribe(lambda one: replied.set() if one == row.id else None)
    try:
        with write():
            row.save(force_insert=True)
        return _wait(row, workers, replied, deadline)
    finally:
        leave()
        with write():
            Consultation.objects.filter(pk=row.id).delete()


def _wait(row: Consultation, workers: int, replied: Event, deadline: float) -> WorkerReply | None:
    """Return the reply, None once the time is over. What was not taken is signalled again and again.

    What one worker cannot read, or replies so that it cannot be read here, is left to the others of the ``workers``
    that have the version: ``unread`` if none of them is left, or the time is over.
    """
    pause, signalled, taken, unread_by = FIRST_LOOK, 0.0, False, list[str]()
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
        taken = bool(found.worker)
        if not taken or found.reply is None:
            continue
        reply = _read(found.reply)
        if reply.unread_by:
            # What was noted below: the worker that has taken it since is still at it.
            continue
        if not reply.unread:
            return reply
        if found.worker in unread_by or len(unread_by) + 1 >= workers:
            return WorkerReply(unread=True, unread_by=(*unread_by, found.worker))
        unread_by.append(found.worker)
        document = WorkerReply(unread=True, unread_by=tuple(unread_by)).model_dump(mode="json")
        open_again = {"worker": "", "reply": encrypted_for(Consultation, "reply", document, found.pk)}
        with write():
            Consultation.objects.filter(pk=found.pk, worker=found.worker).update(**open_again)
        taken, signalled = False, 0.0
    return WorkerReply(unread=True, unread_by=tuple(unread_by)) if unread_by else None


def _read(document: Json) -> WorkerReply:
    try:
        return WorkerReply.model_validate(document)
    except ValidationError:
        return WorkerReply(unread=True)

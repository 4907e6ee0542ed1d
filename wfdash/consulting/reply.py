"""The worker's half: takes what servers ask of the workflows that it has, and writes what their engines reply."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from django.conf import settings

from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.models import Consultation
from checkpoints.models.fields import encrypted_for
from wfdash import pubsub
from wfdash.catalog import Entry
from wfdash.engines.consultation import CODE, WorkerReply, is_too_large, perform, reply_with_code

log = logging.getLogger(__name__)

BATCH = 100
"""Questions among which a worker looks for one that it can answer."""
FORGOTTEN = timedelta(minutes=1)
"""A question is removed after so long: the server that asked it has ended."""
TOO_LARGE = "The result is larger than 16 MB: use a server that has loaded the workflow"


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
    old = Consultation.objects.filter(created__lt=database_now() - FORGOTTEN).order_by("created")
    found = list(old.values_list("pk", flat=True)[:limit])
    if found:
        with write():
            Consultation.objects.filter(pk__in=found).delete()
    return len(found)


def _take(worker: str, known: Iterable[tuple[str, str]]) -> Consultation | None:
    mine = set(known)
    open_ = Consultation.objects.filter(worker="", workflow__in={name for name, _ in mine}).order_by("created", "pk")
    for one in open_.defer("given")[:BATCH]:
        if (one.workflow, one.version) not in mine or worker in _unread_by(one):
            continue
        with write():
            taken = Consultation.objects.filter(pk=one.pk, worker="").update(worker=worker)
        # One that its server withdraws at this moment does not keep the next from a reply.
        if taken and (row := Consultation.objects.filter(pk=one.pk).first()):
            return row
    return None


def _unread_by(row: Consultation) -> Sequence[str]:
    """Return the workers to which the question is not put again, as its server has noted."""
    return row.reply.get("unread_by", ()) if row.reply is not None else ()


def _reply(entry: Entry, row: Consultation) -> WorkerReply:
    try:
        if row.ability == CODE:
            return reply_with_code(entry.code if settings.WFDASH_SHOW_CODE else ())
        reply = perform(entry.engine, entry.definition, row.ability, row.given)
        if reply.unread:
            log.error("A server of another release of wfdash asked for %s of workflow %s", row.ability, row.workflow)
        too_large = is_too_large(reply.model_dump(mode="json"))
        return WorkerReply(refusal="Unsupported", words=TOO_LARGE) if too_large else reply
    except Exception as error:
        log.exception("Could not answer a server: %s of workflow %s", row.ability, row.workflow)
        return WorkerReply(failure=type(error).__name__)

"""What happened to runs, written to the outbox of the webhooks that want it: each event once, and none left out.

As statistics do, it follows the events of all runs by a mark. Without an active webhook it neither reads nor writes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.utils import timezone

from checkpoints.database.clock import database_now
from checkpoints.database.high_water_mark import WEBHOOKS, HighWaterMark, settled_id
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import FOR_PEOPLE, OPEN, Event, HumanRequest, Notice, Run, TallyMark, Webhook
from checkpoints.models.fields import decrypted
from checkpoints.models.removal import REMOVED
from checkpoints.records import Json
from wfdash.actions.runs.announce import error_class, title_for_everyone
from wfdash.actions.sweep_backoff import is_outage
from wfdash.notifications.listeners import hears, webhooks_for
from wfdash.notifications.write import facts_of_request, notice_to

log = logging.getLogger(__name__)

MARK = WEBHOOKS
BATCH = 500
ACTIVE = Webhook.objects.filter(active=True)
FED_BY: Mapping[str, str] = {
    EventKind.RUN_COMPLETED: "completed",
    EventKind.RUN_FAILED: "failed",
    EventKind.RUN_CANCELLED: "cancelled",
    EventKind.RUN_WAITING: "waiting",
    EventKind.REQUEST_WITHDRAWN: "withdrawn",
}
ENDS = (EventKind.RUN_COMPLETED, EventKind.RUN_CANCELLED)
"""After these a callback hears nothing more; a failed run may be retried."""


def open_feed() -> None:
    """Begin with what happens from now on if no webhook was active. Call it in ``write()``, before one becomes
    active.
    """
    if not ACTIVE.exists():
        TallyMark.objects.update_or_create(pk=MARK, defaults={"event": settled_id(), "at": timezone.now()})


def feed_webhooks(high_water_mark: HighWaterMark, limit: int = BATCH) -> int:
    """Write what webhooks are sent of the next events. Returns how many events were passed, 0 at the end."""
    if not ACTIVE.exists():
        return 0
    mark = _mark()
    last = min(high_water_mark.current(), mark + limit)
    if last <= mark:
        return 0
    events = _events(mark, last)
    notices = list(_notices(events))
    ended = [event.run_id for event in events if event.kind in ENDS]
    with write():
        if TallyMark.objects.filter(pk=MARK, event=mark).update(event=last, at=timezone.now()) != 1:
            return 0  # Another worker was faster.
        if ended:
            Webhook.objects.filter(run__in=ended).update(active=False)
        # After the webhooks, as who deletes a run deletes those first: notices keep the requests they refer to.
        Notice.objects.bulk_create(notices)
    return last - mark


def _mark() -> int:
    found: int | None = TallyMark.objects.filter(pk=MARK).values_list("event", flat=True).first()
    if found is not None:
        return found
    with write():
        row, _ = TallyMark.objects.get_or_create(pk=MARK, defaults={"event": settled_id()})
        return int(row.event)


def _events(mark: int, last: int) -> list[Event]:
    rows = Event.objects.filter(pk__gt=mark, pk__lte=last, kind__in=FED_BY).order_by("pk")
    return list(rows.exclude(run__workflow=REMOVED).defer("data").select_related("run"))


def _notices(events: Iterable[Event]) -> Iterator[Notice]:
    found, now = list(events), database_now()
    hooks = list(webhooks_for({event.run.workflow for event in found}, {event.run_id for event in found}))
    for event in found if hooks else ():
        kind = FED_BY[event.kind]
        hearing = [hook for hook in hooks if hears(hook, kind, event.run.workflow, event.run_id)]
        about = _about(event) if hearing else None
        for hook in hearing if about else ():
            notice = notice_to(hook.pk, kind, now)
            notice.request, notice.workflow, notice.payload = about["request"], event.run.workflow, about["payload"]  # type: ignore[index]
            yield notice


def _about(event: Event) -> dict[str, Any] | None:
    """Return what a delivery is about, None if it cannot be read: it must not hold up the others."""
    try:
        if event.kind == EventKind.REQUEST_WITHDRAWN:
            return _about_request(event)
        return {"request": None, "payload": _facts_of_run(event)}
    except Exception as error:
        if is_outage(error):
            raise
        log.exception("Webhooks are not sent event %d of run %s, which could not be read", event.seq, event.run_id)
        return None


def _about_request(event: Event) -> dict[str, Any] | None:
    data = decrypted(Event, "data", event.data, event.run_id, str(event.seq))
    request = HumanRequest.objects.filter(FOR_PEOPLE, pk=data.get("request")).first()
    return None if request is None else {"request": request, "payload": facts_of_request(request)}


def _facts_of_run(event: Event) -> dict[str, Json]:
    run: Run = event.run
    facts: dict[str, Json] = {"workflow": run.workflow, "run": run.pk, "subject": title_for_everyone(run)}
    if event.kind == EventKind.RUN_FAILED:
        facts["text"] = error_class(run)
    if event.kind == EventKind.RUN_CANCELLED:
        facts["by"] = run.acted_by
    if event.kind == EventKind.RUN_WAITING:
        facts["requests"] = list(HumanRequest.objects.filter(FOR_PEOPLE, OPEN, run=run).values_list("pk", flat=True))
    return facts

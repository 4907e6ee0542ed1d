"""Webhooks, one's own and for admins of all workflows everyone's: create, enable, disable, test, renew the secret,
remove.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.alias import connection
from checkpoints.database.clock import database_now
from checkpoints.database.high_water_mark import WEBHOOKS, HighWaterMark, settled_id
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import (
    FOR_PEOPLE,
    OPEN,
    REMOVED,
    DeliveryAttempt,
    Event,
    HumanRequest,
    Notice,
    Run,
    TallyMark,
    Webhook,
)
from checkpoints.models.fields import decrypted
from checkpoints.records import JsonObject
from wfdash.access.directory import managed_by, refuse_narrow, service_account
from wfdash.access.viewer import EVERY, Viewer, viewer_for
from wfdash.actions import audit, pacing
from wfdash.actions.pacing import idempotent, is_outage
from wfdash.actions.runs.search_index import error_class, title_for_everyone
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState, wrong
from wfdash.domain.hooks import new_secret
from wfdash.domain.search_attributes import cleaned
from wfdash.notifications.letters import Undeliverable, refuse_address
from wfdash.notifications.preferences import WEBHOOK, WEBHOOK_KINDS, hears, webhooks_for
from wfdash.notifications.webhook import HookAttempt, newest, rotated
from wfdash.notifications.write import facts_of_request, notice_to
from wfdash.values.schemas.validate import Problem

# Deliveries of webhooks: sent again, one of them or all that were given up.

MOST_DELIVERIES = 1_000
"""Deliveries sent again at a time."""


def resend(viewer: Viewer, webhook_id: str, notice_id: str) -> None:
    """Send a delivery again, with the same id, whether it arrived or not. ``NotFound``, ``WrongState`` if disabled."""
    with write():
        pacing.charge(viewer, "webhook")
        _refuse_unless_active(viewer, webhook_id)
        if not _again([notice_id], webhook_id):
            raise NotFound("Delivery not found")


def resend_failed(viewer: Viewer, webhook_id: str, *, since: datetime | None = None) -> int:
    """Send again what was given up since then (a day ago), the oldest first. Returns how many."""
    since = since or timezone.now() - timedelta(days=1)
    with write():
        pacing.charge(viewer, "webhook")
        _refuse_unless_active(viewer, webhook_id)
        lost = Notice.objects.filter(channel=WEBHOOK, target=webhook_id, given_up__gte=since).order_by("created")
        return _again(list(lost.values_list("pk", flat=True)[:MOST_DELIVERIES]), webhook_id)


def keep_attempt(notice_id: str, attempt: HookAttempt) -> None:
    """Keep what became of an attempt, unless the delivery was removed in the meantime."""
    if Notice.objects.filter(pk=notice_id).exists():
        facts = {"ms": attempt.ms, "status": attempt.status, "answer": attempt.answer, "error": attempt.error[:500]}
        DeliveryAttempt.objects.create(notice_id=notice_id, at=timezone.now(), **facts)


def _refuse_unless_active(viewer: Viewer, webhook_id: str) -> None:
    webhook = find_webhook(viewer, webhook_id)
    if not webhook.active and webhook.run_id is None:
        raise WrongState("This webhook is disabled. Enable it first")
    audit.record(viewer, "resend webhook", **about(viewer, webhook), facts={"webhook": webhook.name})


def _again(notices: list[str], webhook_id: str) -> int:
    rows = Notice.objects.filter(pk__in=notices, channel=WEBHOOK, target=webhook_id)
    return rows.update(due=database_now(), sent=None, given_up=None, attempts=0, error="")


MOST_WEBHOOKS = 50
"""Webhooks that one person can add."""


def create_webhook(
    viewer: Viewer,
    *,
    name: str,
    url: str,
    workflow: str = EVERY,
    kinds: Sequence[str] = (),
    values: bool = False,
    owner: str = "",
    key: str | None = None,
) -> tuple[Webhook, str]:
    """Create a webhook. Returns it and its secret, which is shown only this once. No kinds: all of them.

    ``owner``: the name of the viewer, or for an admin that of a service account: it is sent what that account may see.
    Empty: a webhook of the installation. ``values``: deliveries carry answers, outputs and errors, as far as the owner
    may inspect them. The same ``key`` creates it once. ``Invalid`` with errors per field, ``NotAllowed``.
    """
    whose = _owner(viewer, owner)
    if problems := [*_problems(name, url, workflow, kinds), *_missing_rights(whose, workflow.strip(), values)]:
        raise Invalid(problems)
    secret, command = new_secret(), [name, url, workflow, sorted(set(kinds)), values, owner]
    with write(), idempotent(viewer, key, "add webhook", command) as call:
        if call.previous_result is not None:
            made = find_webhook(viewer, str(call.previous_result["id"]))
            return made, newest(made.secret)
        pacing.charge(viewer, "webhook")
        _refuse_too_many(viewer)
        open_feed()
        webhook = Webhook.objects.create(
            id=ids.new_token(),
            name=cleaned(name),
            url=url.strip(),
            secret=secret,
            workflow=workflow.strip() or EVERY,
            kinds=sorted(set(kinds)),
            values=values,
            owner=whose.user if whose else None,
            created_by=viewer.user,
            created=timezone.now(),
        )
        call.record(id=webhook.pk)
        facts = {"url": webhook.url, "kinds": webhook.kinds, "values": values, "owner": owner}
        _record(viewer, "add webhook", webhook, facts)
    return webhook, secret


def switch_webhook(viewer: Viewer, webhook_id: str, *, active: bool) -> None:
    """Enable or disable a webhook. Pending deliveries of a disabled one are dropped."""
    with write():
        pacing.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        if active:
            open_feed()
        Webhook.objects.filter(pk=webhook.pk).update(active=active)
        _record(viewer, "switch webhook", webhook, {"active": active})


def renew_secret(viewer: Viewer, webhook_id: str, *, key: str | None = None) -> str:
    """Return a new secret for a webhook, shown only this once; the previous one also signs until it is retired or
    renewed. The same ``key`` renews it once.
    """
    with write(), idempotent(viewer, key, "renew webhook secret", [webhook_id]) as call:
        webhook = find_webhook(viewer, webhook_id)
        if call.previous_result is not None:
            return newest(webhook.secret)
        pacing.charge(viewer, "webhook")
        secret = new_secret()
        webhook.secret = rotated(webhook.secret, secret)
        webhook.save(update_fields=["secret"])
        _record(viewer, "renew webhook secret", webhook, {})
    return secret


def retire_secret(viewer: Viewer, webhook_id: str) -> None:
    """Sign with the newest secret only, because the receiver has it by now."""
    with write():
        pacing.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        webhook.secret = newest(webhook.secret)
        webhook.save(update_fields=["secret"])
        _record(viewer, "retire webhook secret", webhook, {})


def remove_webhook(viewer: Viewer, webhook_id: str) -> None:
    """Delete a webhook and its deliveries."""
    with write():
        pacing.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        Notice.objects.filter(channel=WEBHOOK, target=webhook.pk).delete()
        _record(viewer, "remove webhook", webhook, {"url": webhook.url})
        Webhook.objects.filter(pk=webhook.pk).delete()


def try_webhook(viewer: Viewer, webhook_id: str) -> Notice:
    """Return a test delivery, put into the outbox and sent like any other."""
    with write():
        pacing.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        now = database_now()
        payload = {"workflow": webhook.workflow, "by": viewer.name, "text": "If you can read this, it works."}
        return Notice.objects.create(
            id=ids.new_token(), kind="test", channel=WEBHOOK, target=webhook.pk, payload=payload, created=now, due=now
        )


def find_webhook(viewer: Viewer, webhook_id: str) -> Webhook:
    """Return a webhook through its viewer: one's own, and for admins of all workflows every one. Locked inside a
    transaction. ``NotFound``.
    """
    refuse_narrow(viewer)
    rows = Webhook.objects.filter(managed_by(viewer), pk=webhook_id).select_related("owner")
    if connection().in_atomic_block:
        rows = rows.select_for_update(of=("self",))
    webhook = rows.first()
    if webhook is None:
        raise NotFound("Webhook not found")
    return webhook


def _owner(viewer: Viewer, name: str) -> Viewer | None:
    """Return whose rights limit the webhook, None for one of the installation."""
    refuse_narrow(viewer)
    if name == viewer.name and name:
        return viewer
    if name:
        return viewer_for(service_account(viewer, name))
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can add webhooks of the installation")
    return None


def _missing_rights(owner: Viewer | None, workflow: str, values: bool) -> list[Problem]:
    if owner is None:
        return []
    anywhere = workflow in ("", EVERY)
    sees = owner.may_anywhere("see") if anywhere else owner.may("see", workflow)
    inspects = owner.may_anywhere("inspect") if anywhere else owner.may("inspect", workflow)
    if not sees:
        return [wrong("workflow", f"{owner.name} cannot see this workflow")]
    if values and not inspects:
        return [wrong("values", f"{owner.name} cannot inspect values of this workflow")]
    return []


def _refuse_too_many(viewer: Viewer) -> None:
    if Webhook.objects.filter(created_by=viewer.user, run=None).count() >= MOST_WEBHOOKS:
        raise Invalid.at("name", f"At most {MOST_WEBHOOKS} webhooks per person. Remove one first")


def _problems(name: str, url: str, workflow: str, kinds: Sequence[str]) -> list[Problem]:
    found: list[Problem] = []
    if not 0 < len(cleaned(name)) <= 80:
        found.append(wrong("name", "Enter a name of at most 80 characters"))
    try:
        refuse_address(url.strip(), inside=settings.WFDASH_HOOKS_HOSTS)
    except Undeliverable as error:
        found.append(wrong("url", str(error)))
    if len(url) > 500:
        found.append(wrong("url", "At most 500 characters"))
    if len(workflow) > 200:
        found.append(wrong("workflow", "Workflow not found"))
    if unknown := set(kinds) - WEBHOOK_KINDS.keys():
        found.append(wrong("kinds", f"Unknown event: {sorted(unknown)[0]!r}"))
    return found


def _record(viewer: Viewer, verb: str, webhook: Webhook, facts: dict[str, object]) -> None:
    audit.record(viewer, verb, **about(viewer, webhook), facts={"webhook": webhook.name, **facts})


def about(viewer: Viewer, webhook: Webhook) -> dict[str, str]:
    """Return what an audit entry says of a webhook: its workflow, and by which right this person manages it."""
    named = webhook.workflow if webhook.workflow != EVERY else ""
    return {"workflow": named, "right": "own" if webhook.owner_id == viewer.user.pk else "admin"}


# What happened to runs, written to the outbox of the webhooks that want it: each event once, and none left out.

log = logging.getLogger(__name__)

EVENTS_AT_ONCE = 500
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
        TallyMark.objects.update_or_create(pk=WEBHOOKS, defaults={"event": settled_id(), "at": timezone.now()})


def feed_webhooks(high_water_mark: HighWaterMark, limit: int = EVENTS_AT_ONCE) -> int:
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
        if TallyMark.objects.filter(pk=WEBHOOKS, event=mark).update(event=last, at=timezone.now()) != 1:
            return 0  # Another worker was faster.
        if ended:
            Webhook.objects.filter(run__in=ended).update(active=False)
        # After the webhooks, as who deletes a run deletes those first: notices keep the requests they refer to.
        Notice.objects.bulk_create(notices)
    return last - mark


def _mark() -> int:
    found: int | None = TallyMark.objects.filter(pk=WEBHOOKS).values_list("event", flat=True).first()
    if found is not None:
        return found
    with write():
        row, _ = TallyMark.objects.get_or_create(pk=WEBHOOKS, defaults={"event": settled_id()})
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


def _about(event: Event) -> JsonObject | None:
    """Return what a delivery is about, None if it cannot be read: it must not hold up the others."""
    try:
        if event.kind == EventKind.REQUEST_WITHDRAWN:
            data = decrypted(Event, "data", event.data, event.run_id, str(event.seq))
            request = HumanRequest.objects.filter(FOR_PEOPLE, pk=data.get("request")).first()
            return None if request is None else {"request": request, "payload": facts_of_request(request)}
        return {"request": None, "payload": _facts_of_run(event)}
    except Exception as error:
        if is_outage(error):
            raise
        log.exception("Webhooks are not sent event %d of run %s, which could not be read", event.seq, event.run_id)
        return None


def _facts_of_run(event: Event) -> JsonObject:
    run: Run = event.run
    facts: JsonObject = {"workflow": run.workflow, "run": run.pk, "subject": title_for_everyone(run)}
    if event.kind == EventKind.RUN_FAILED:
        facts["text"] = error_class(run)
    if event.kind == EventKind.RUN_CANCELLED:
        facts["by"] = run.acted_by
    if event.kind == EventKind.RUN_WAITING:
        facts["requests"] = list(HumanRequest.objects.filter(FOR_PEOPLE, OPEN, run=run).values_list("pk", flat=True))
    return facts

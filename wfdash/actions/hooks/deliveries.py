"""Deliveries of webhooks: sent again, one of them or all that were given up."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.models import DeliveryAttempt, Notice
from wfdash.access.viewer import Viewer
from wfdash.actions import rate_limit
from wfdash.actions.audit import entries
from wfdash.actions.hooks.webhooks import about, find_webhook
from wfdash.errors import NotFound, WrongState
from wfdash.notifications.kinds import WEBHOOK
from wfdash.notifications.webhook import HookAttempt

MOST = 1_000
"""Deliveries sent again at a time."""


def resend(viewer: Viewer, webhook_id: str, notice_id: str) -> None:
    """Send a delivery again, with the same id, whether it arrived or not. ``NotFound``, ``WrongState`` if disabled."""
    with write():
        rate_limit.charge(viewer, "webhook")
        _refuse_unless_active(viewer, webhook_id)
        if not _again([notice_id], webhook_id):
            raise NotFound("Delivery not found")


def resend_failed(viewer: Viewer, webhook_id: str, *, since: datetime | None = None) -> int:
    """Send again what was given up since then (a day ago), the oldest first. Returns how many."""
    since = since or timezone.now() - timedelta(days=1)
    with write():
        rate_limit.charge(viewer, "webhook")
        _refuse_unless_active(viewer, webhook_id)
        lost = Notice.objects.filter(channel=WEBHOOK, target=webhook_id, given_up__gte=since).order_by("created")
        return _again(list(lost.values_list("pk", flat=True)[:MOST]), webhook_id)


def keep_attempt(notice_id: str, attempt: HookAttempt) -> None:
    """Keep what became of an attempt, unless the delivery was removed in the meantime."""
    if Notice.objects.filter(pk=notice_id).exists():
        facts = {"ms": attempt.ms, "status": attempt.status, "answer": attempt.answer, "error": attempt.error[:500]}
        DeliveryAttempt.objects.create(notice_id=notice_id, at=timezone.now(), **facts)


def _refuse_unless_active(viewer: Viewer, webhook_id: str) -> None:
    webhook = find_webhook(viewer, webhook_id)
    if not webhook.active and webhook.run_id is None:
        raise WrongState("This webhook is disabled. Enable it first")
    entries.record(viewer, "resend webhook", **about(viewer, webhook), facts={"webhook": webhook.name})


def _again(notices: list[str], webhook_id: str) -> int:
    rows = Notice.objects.filter(pk__in=notices, channel=WEBHOOK, target=webhook_id)
    return rows.update(due=database_now(), sent=None, given_up=None, attempts=0, error="")

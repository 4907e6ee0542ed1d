"""Webhooks, for administrators of all workflows: create, enable, disable, test, renew the secret, remove."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone

from checkpoints import ids
from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.models import Notice, Webhook
from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions import rate_limit
from wfdash.actions.audit import entries
from wfdash.errors import Invalid, NotAllowed, NotFound
from wfdash.notifications.kinds import KINDS, WEBHOOK
from wfdash.notifications.letters import Undeliverable
from wfdash.notifications.outside import refuse_address
from wfdash.notifications.signing import new_secret
from wfdash.schemas.validate import Problem

KEPT = 2
"""How many secrets sign at the same time: the newest, and the previous one until the receiver has the newest."""


def create_webhook(
    viewer: Viewer, *, name: str, url: str, workflow: str = EVERY, kinds: Sequence[str] = ()
) -> tuple[Webhook, str]:
    """Create a webhook. Returns it and its secret, which is shown only this once. No kinds: all of them.

    ``Invalid`` with errors per field, ``NotAllowed``.
    """
    _refuse_unless_admin(viewer)
    if problems := _problems(name, url, workflow, kinds):
        raise Invalid(problems)
    secret = new_secret()
    with write():
        rate_limit.charge(viewer, "webhook")
        webhook = Webhook.objects.create(
            id=ids.new_token(),
            name=name.strip(),
            url=url.strip(),
            secret=secret,
            workflow=workflow.strip() or EVERY,
            kinds=sorted(set(kinds)),
            created_by=viewer.user,
            created=timezone.now(),
        )
        _record(viewer, "add webhook", webhook, {"url": webhook.url, "kinds": webhook.kinds})
    return webhook, secret


def switch_webhook(viewer: Viewer, webhook_id: str, *, active: bool) -> None:
    """Enable or disable a webhook. Pending deliveries of a disabled one are dropped."""
    with write():
        rate_limit.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        Webhook.objects.filter(pk=webhook.pk).update(active=active)
        _record(viewer, "switch webhook", webhook, {"active": active})


def renew_secret(viewer: Viewer, webhook_id: str) -> str:
    """Return a new secret for a webhook, shown only this once; the previous one also signs until it is retired or
    renewed.
    """
    with write():
        rate_limit.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        secret = new_secret()
        webhook.secret = " ".join([secret, *webhook.secret.split()][:KEPT])
        webhook.save(update_fields=["secret"])
        _record(viewer, "renew webhook secret", webhook, {})
    return secret


def retire_secret(viewer: Viewer, webhook_id: str) -> None:
    """Sign with the newest secret only, because the receiver has it by now."""
    with write():
        rate_limit.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        webhook.secret = webhook.secret.split()[0]
        webhook.save(update_fields=["secret"])
        _record(viewer, "retire webhook secret", webhook, {})


def remove_webhook(viewer: Viewer, webhook_id: str) -> None:
    """Delete a webhook and its deliveries."""
    with write():
        rate_limit.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        Notice.objects.filter(channel=WEBHOOK, target=webhook.pk).delete()
        _record(viewer, "remove webhook", webhook, {"url": webhook.url})
        Webhook.objects.filter(pk=webhook.pk).delete()


def try_webhook(viewer: Viewer, webhook_id: str) -> Notice:
    """Return a test delivery, put into the outbox and sent like any other."""
    with write():
        rate_limit.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        now = database_now()
        payload = {"workflow": webhook.workflow, "by": viewer.name, "text": "If you can read this, it works."}
        return Notice.objects.create(
            id=ids.new_token(), kind="test", channel=WEBHOOK, target=webhook.pk, payload=payload, created=now, due=now
        )


def find_webhook(viewer: Viewer, webhook_id: str) -> Webhook:
    """Return a webhook. ``NotAllowed`` for non-administrators, ``NotFound``."""
    _refuse_unless_admin(viewer)
    webhook = Webhook.objects.filter(pk=webhook_id).first()
    if webhook is None:
        raise NotFound("Webhook not found")
    return webhook


def _refuse_unless_admin(viewer: Viewer) -> None:
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of all workflows can manage webhooks")


def _problems(name: str, url: str, workflow: str, kinds: Sequence[str]) -> list[Problem]:
    found: list[Problem] = []
    if not 0 < len(name.strip()) <= 80:
        found.append({"loc": ["name"], "msg": "Enter a name of at most 80 characters"})
    try:
        refuse_address(url.strip())
    except Undeliverable as error:
        found.append({"loc": ["url"], "msg": str(error)})
    if len(url) > 500:
        found.append({"loc": ["url"], "msg": "At most 500 characters"})
    if len(workflow) > 200:
        found.append({"loc": ["workflow"], "msg": "Workflow not found"})
    if unknown := set(kinds) - KINDS.keys():
        found.append({"loc": ["kinds"], "msg": f"Unknown event: {sorted(unknown)[0]!r}"})
    return found


def _record(viewer: Viewer, verb: str, webhook: Webhook, facts: dict[str, object]) -> None:
    named = webhook.workflow if webhook.workflow != EVERY else ""
    entries.record(viewer, verb, workflow=named, right="admin", facts={"webhook": webhook.name, **facts})

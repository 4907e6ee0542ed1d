"""Webhooks, one's own and for admins of all workflows everyone's: create, enable, disable, test, renew the secret,
remove.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.alias import connection
from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.models import Notice, Webhook
from wfdash.access.administration import managed_by, refuse_narrow, service_account
from wfdash.access.viewer import EVERY, Viewer, viewer_for
from wfdash.actions import rate_limit
from wfdash.actions.audit import entries
from wfdash.actions.hooks.feed import open_feed
from wfdash.actions.idempotency import idempotent
from wfdash.domain.hooks.signatures import new_secret
from wfdash.errors import Invalid, NotAllowed, NotFound
from wfdash.notifications.kinds import WEBHOOK, WEBHOOK_KINDS
from wfdash.notifications.letters import Undeliverable
from wfdash.notifications.outside import refuse_address
from wfdash.notifications.signing import newest, rotated
from wfdash.schemas.validate import Problem

MOST = 50
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
        rate_limit.charge(viewer, "webhook")
        _refuse_too_many(viewer)
        open_feed()
        webhook = Webhook.objects.create(
            id=ids.new_token(),
            name=name.strip(),
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
        rate_limit.charge(viewer, "webhook")
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
        rate_limit.charge(viewer, "webhook")
        secret = new_secret()
        webhook.secret = rotated(webhook.secret, secret)
        webhook.save(update_fields=["secret"])
        _record(viewer, "renew webhook secret", webhook, {})
    return secret


def retire_secret(viewer: Viewer, webhook_id: str) -> None:
    """Sign with the newest secret only, because the receiver has it by now."""
    with write():
        rate_limit.charge(viewer, "webhook")
        webhook = find_webhook(viewer, webhook_id)
        webhook.secret = newest(webhook.secret)
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
        return [{"loc": ["workflow"], "msg": f"{owner.name} cannot see this workflow"}]
    if values and not inspects:
        return [{"loc": ["values"], "msg": f"{owner.name} cannot inspect values of this workflow"}]
    return []


def _refuse_too_many(viewer: Viewer) -> None:
    if Webhook.objects.filter(created_by=viewer.user, run=None).count() >= MOST:
        raise Invalid([{"loc": ["name"], "msg": f"At most {MOST} webhooks per person. Remove one first"}])


def _problems(name: str, url: str, workflow: str, kinds: Sequence[str]) -> list[Problem]:
    found: list[Problem] = []
    if not 0 < len(name.strip()) <= 80:
        found.append({"loc": ["name"], "msg": "Enter a name of at most 80 characters"})
    try:
        refuse_address(url.strip(), inside=settings.WFDASH_HOOKS_HOSTS)
    except Undeliverable as error:
        found.append({"loc": ["url"], "msg": str(error)})
    if len(url) > 500:
        found.append({"loc": ["url"], "msg": "At most 500 characters"})
    if len(workflow) > 200:
        found.append({"loc": ["workflow"], "msg": "Workflow not found"})
    if unknown := set(kinds) - WEBHOOK_KINDS.keys():
        found.append({"loc": ["kinds"], "msg": f"Unknown event: {sorted(unknown)[0]!r}"})
    return found


def _record(viewer: Viewer, verb: str, webhook: Webhook, facts: dict[str, object]) -> None:
    entries.record(viewer, verb, **about(viewer, webhook), facts={"webhook": webhook.name, **facts})


def about(viewer: Viewer, webhook: Webhook) -> dict[str, str]:
    """Return what an audit entry says of a webhook: its workflow, and by which right this person manages it."""
    named = webhook.workflow if webhook.workflow != EVERY else ""
    return {"workflow": named, "right": "own" if webhook.owner_id == viewer.user.pk else "admin"}

"""What a delivery to a webhook carries: decided when it is sent, by the rights that its owner has then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints.content.canonical_json import dumps
from checkpoints.errors import CheckpointsError
from checkpoints.models import Answer, Notice, Run, Webhook
from checkpoints.records import Json
from wfdash import catalog
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions.hooks.deliveries import keep_attempt
from wfdash.notifications.letters import Undeliverable
from wfdash.notifications.webhook import Receiver
from wfdash.queries.workflows.published import published_secrets
from wfdash.schemas.secrets import masked
from wfdash.timemachine.restore_point import secrets_in

LARGEST = 262_144
"""Bytes of a value that a delivery carries; a larger one is to be fetched by the API."""


@dataclass(frozen=True, kw_only=True)
class Recipient:
    """A webhook, and its owner's rights: None where it is one of the installation."""

    webhook: Webhook
    owner: Viewer | None

    @property
    def receiver(self) -> Receiver:
        """Return where to post, and what signs it."""
        secrets = tuple(self.webhook.secret.split())
        return Receiver(url=self.webhook.url, secrets=secrets, keep=keep_attempt)

    def may(self, right: str, workflow: str) -> bool:
        """Return whether its owner has a right; the installation has every one."""
        return self.owner is None or self.owner.may(right, workflow)


def recipient_of(target: str) -> Recipient:
    """Return a webhook by its id. ``Undeliverable`` if it was removed or disabled."""
    webhook = Webhook.objects.select_related("owner").filter(pk=target).first()
    if webhook is None or not (webhook.active or webhook.run_id):
        raise Undeliverable("This webhook was removed or disabled")
    return Recipient(webhook=webhook, owner=viewer_for(webhook.owner) if webhook.owner else None)


def hook_refusal(recipient: Recipient, notice: Notice) -> str:
    """Return why a webhook is not sent this, empty if it is."""
    workflow = _workflow_of(notice)
    return "" if not workflow or recipient.may("see", workflow) else "The owner can no longer see this"


def values_for(recipient: Recipient, notice: Notice) -> dict[str, Json]:
    """Return the answer, output or error, if the webhook is to carry it and its owner may inspect it.

    Secrets are masked. ``{"omitted": name}`` for one that is too large or cannot be read.
    """
    workflow = _workflow_of(notice)
    if not recipient.webhook.values or not workflow or not recipient.may("inspect", workflow):
        return {}
    try:
        values = _values(notice)
        names = _secrets_of(workflow) if values else ()
        found = {name: masked(value, names) for name, value in values.items()}
    except CheckpointsError:
        return {"omitted": "unreadable"}
    return found if len(dumps(found)) <= LARGEST else {"omitted": ", ".join(found)}


def _secrets_of(workflow: str) -> frozenset[str]:
    """Return the names of a workflow's secret fields: the worker that delivers may be another than the one that has its
    code.
    """
    entry = catalog.find(workflow)
    return entry.secrets if entry else published_secrets(workflow)


def _values(notice: Notice) -> Mapping[str, Any]:
    if notice.kind == "answered" and notice.request is not None:
        answer = Answer.objects.filter(request=notice.request).first()
        return {"answer": masked(answer.value, secrets_in(notice.request))} if answer else {}
    if notice.kind not in ("completed", "failed"):
        return {}
    run = Run.objects.filter(pk=str(notice.payload.get("run") or "")).first()
    if run is None:
        return {}
    if notice.kind == "completed":
        return {"output": run.output}
    error = run.error or {}
    return {"error": {name: error.get(name) for name in ("type", "message", "step")}}


def _workflow_of(notice: Notice) -> str:
    return str(notice.request.workflow if notice.request else notice.workflow or notice.payload.get("workflow") or "")

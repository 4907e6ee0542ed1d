"""The tables of webhooks: those that are sent, with each attempt, and those that are received."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.limits import ID
from checkpoints.models.fields import CharField, EncryptedTextField, JsonField, MomentField

PERSON = settings.AUTH_USER_MODEL


class Webhook(models.Model):
    """An address that receives events, signed with secrets of its own (the newest first).

    ``owner``: the person or service account whose rights limit what it is sent; null for a webhook of the
    installation, which only admins of all workflows manage.
    """

    id = CharField(max_length=36, primary_key=True)
    name = CharField(max_length=80)
    url = CharField(max_length=500)
    secret = EncryptedTextField("webhook", ("id",))
    workflow = CharField(max_length=200, default="*")
    kinds = JsonField(default=list)
    active = models.BooleanField(default=True)
    created_by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    created = MomentField()
    owner = models.ForeignKey(PERSON, null=True, on_delete=models.CASCADE, related_name="webhooks")
    values = models.BooleanField(default=False, db_default=False)
    """Whether deliveries carry the answer, output or error itself."""
    run = models.ForeignKey("checkpoints.Run", null=True, on_delete=models.CASCADE, related_name="callbacks")
    """A callback: it hears of this run only, and is asked for when the run is started."""

    class Meta:
        indexes = [models.Index(fields=["workflow"], condition=Q(active=True, run=None), name="webhook_active")]

    def __str__(self) -> str:
        return self.name


class DeliveryAttempt(models.Model):
    """One attempt to deliver a notification to a webhook. ``status`` is null where no HTTP response came."""

    notice = models.ForeignKey("checkpoints.Notice", on_delete=models.CASCADE, related_name="tries")
    at = MomentField()
    ms = models.IntegerField()
    status = models.IntegerField(null=True)
    answer = EncryptedTextField("attempt", ("notice_id",), blank=True, default="")
    """The first characters of the response."""
    error = CharField(max_length=500, blank=True)

    def __str__(self) -> str:
        return f"{self.status or self.error}"


class IncomingHook(models.Model):
    """An address at which another system starts runs of a workflow, or sends signals to them, as ``owner``."""

    id = CharField(max_length=36, primary_key=True)
    name = CharField(max_length=80)
    workflow = CharField(max_length=200)
    signal = CharField(max_length=100, blank=True)
    """The signal that is sent; empty: a run is started."""
    run_at = CharField(max_length=300, blank=True)
    """Where a delivery names the run that gets the signal: a JSON Pointer."""
    mapping = JsonField()
    """The message as a template: see ``wfdash.domain.hooks.mapping``."""
    scheme = CharField(max_length=12)
    """How deliveries are signed: standard | github | timestamped | token."""
    header = CharField(max_length=80, blank=True)
    """The header with the signature or token, where the scheme leaves it open."""
    secret = EncryptedTextField("incoming", ("id",))
    """Secrets, the newest first, separated by spaces: each of them is accepted."""
    key_at = CharField(max_length=300, blank=True)
    """Where a delivery has its own id; without one the same body counts once."""
    active = models.BooleanField(default=True)
    owner = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="incoming_hooks")
    created_by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    authors = JsonField(null=True)
    """Names of all who made it, changed it or saw one of its secrets: each counts as requester of its runs."""
    created = MomentField()

    def __str__(self) -> str:
        return self.name


class IncomingDelivery(models.Model):
    """What came to an incoming webhook, and what it did. ``key`` is unique among those that were accepted."""

    id = CharField(max_length=36, primary_key=True)
    hook = models.ForeignKey(IncomingHook, on_delete=models.CASCADE, related_name="deliveries")
    at = MomentField()
    key = CharField(max_length=80, null=True)
    status = models.IntegerField()
    outcome = CharField(max_length=12)
    """started | signalled | duplicate | refused."""
    run = CharField(max_length=ID, blank=True)
    why = EncryptedTextField("received", ("id",), blank=True, default="")
    size = models.IntegerField()
    body = EncryptedTextField("received", ("id",), blank=True, default="")
    """The beginning of a body whose signature was right."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hook", "key"], name="one_accepted_per_key")]
        indexes = [
            models.Index(fields=["hook", "-id"], name="received_by_hook"),
            models.Index(fields=["at"], name="received_at"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} {self.status}"

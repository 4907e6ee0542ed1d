"""The tables of webhooks: whom other systems are notified at, and each attempt to do so."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

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

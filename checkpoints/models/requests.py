"""Requests to people, and the answers that won."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.models.expressions import CoveringIndex, Headline
from checkpoints.models.fields import CharField, EncryptedJsonField, JsonField, MomentField
from checkpoints.records import SIGNAL
from checkpoints.rules import answer_digest

PERSON = settings.AUTH_USER_MODEL
UNANSWERED: dict[str, Any] = {"closed__isnull": True, "answered__isnull": True}
"""Which requests partial indexes hold: also those whose answer can still be undone."""


class HumanRequest(models.Model):
    """A question to people. Open while it has no answer, is not closed, and no reply is about to take effect.

    ``key`` is the engine's name for it; after a restore a new row with the same key reopens the question.
    ``closed_as``: taken (the engine has the answer), withdrawn, superseded (restore), cancelled. ``policy`` is
    ``wfdash.questions.policy.Policy`` as JSON; ``alarm`` the next time it names (reminder, escalation,
    deadline). ``risk``: 0 not said, 1 low, 2 medium, 3 high. ``asked``: since when it waits for its requester's reply.
    ``subject``: the card's, for lists; null where the card is encrypted.
    """

    id = CharField(max_length=36, primary_key=True)
    run = models.ForeignKey("checkpoints.Run", on_delete=models.CASCADE, related_name="requests")
    key = CharField(max_length=300)
    workflow = CharField(max_length=200)
    step = CharField(max_length=200)
    kind = CharField(max_length=40)
    card = EncryptedJsonField("request", ("id",), default=dict)
    answer_schema = EncryptedJsonField("request", ("id",), default=dict)
    by = JsonField(default=list)
    not_by = JsonField(default=list)
    due = MomentField(null=True)
    created = MomentField()
    answered = MomentField(null=True)
    closed = MomentField(null=True)
    closed_as = CharField(max_length=12, blank=True)
    replaces = CharField(max_length=36, null=True)
    suggestion = EncryptedJsonField("request", ("id",), null=True)
    policy = JsonField(default=dict)
    alarm = MomentField(null=True)
    risk = models.SmallIntegerField(default=0, db_default=0)
    settles = MomentField(null=True)
    asked = MomentField(null=True)
    told = MomentField(null=True)
    """When those who may answer were notified that it opened."""
    assignee = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="assigned")
    stuck = CharField(max_length=12, blank=True, db_default="", default="")
    """Why it cannot be decided: no one, few, split, unknown (see ``wfdash.access.voters``); empty where it can."""
    subject = models.GeneratedField(
        expression=Headline("card"), output_field=models.TextField(null=True), db_persist=True
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "key"], condition=Q(closed__isnull=True), name="one_pending_request_per_key"
            )
        ]
        indexes = [
            CoveringIndex(
                fields=["created", "id"],
                covered=[
                    *("workflow", "step", "kind", "due", "risk", "assignee", "asked", "settles"),
                    *("run", "by", "not_by", "subject", "closed", "answered"),
                ],
                condition=Q(**UNANSWERED),
                name="request_open",
            ),
            models.Index(fields=["alarm"], condition=Q(alarm__isnull=False, **UNANSWERED), name="request_alarm"),
            models.Index(fields=["created"], condition=Q(told__isnull=True, **UNANSWERED), name="request_untold"),
            models.Index(fields=["created", "id"], condition=Q(stuck__gt="", **UNANSWERED), name="request_stuck"),
            models.Index(fields=["answered", "id"], condition=Q(answered__isnull=False), name="request_answered"),
        ]

    def __str__(self) -> str:
        return str(self.card.get("subject") or self.step)


OPEN = Q(closed__isnull=True, answered__isnull=True, settles__isnull=True)
"""Requests that wait for an answer."""
FOR_PEOPLE = ~Q(kind=SIGNAL)
"""Requests that people answer: all but those that wait for a signal."""


class Answer(models.Model):
    """The reply that won, on behalf of ``acting_for`` if that is not empty. One per request, by the primary key."""

    request = models.OneToOneField(HumanRequest, primary_key=True, on_delete=models.CASCADE, related_name="answer")
    value = EncryptedJsonField("answer", ("request_id",), null=True)
    verdict = CharField(max_length=40, blank=True)
    by = models.ForeignKey(PERSON, null=True, on_delete=models.PROTECT, related_name="+")
    at = MomentField()
    acting_for = CharField(max_length=150, blank=True, db_default="", default="")
    others = models.TextField(blank=True, db_default="", default="")
    """Who voted before, and in whose name: a JSON list of user names, empty if no one did."""
    digest = CharField(max_length=40, blank=True, db_default="", default="")
    """Binds the row: see ``bound``. Empty for an answer from before there were digests."""

    def __str__(self) -> str:
        return f"{self.verdict or 'answer'} to {self.request_id}"

    def bound(self) -> Answer:
        """Return this answer with its digest, by which storages notice that it was changed."""
        given = (self.request_id, self.request.key, self.value, self.by_id, self.at, self.acting_for, self.others)
        self.digest = answer_digest(*given)
        return self

"""The tables of what people do to requests: replies, comments, presence, absence, notifications, and the audit.

Append-only where it counts: a reply that was undone stays with the time it was; audit entries are never changed.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.limits import ID
from checkpoints.models.fields import CharField, EncryptedJsonField, EncryptedTextField, JsonField, MomentField

PERSON = settings.AUTH_USER_MODEL
REQUEST = "checkpoints.HumanRequest"


class Reply(models.Model):
    """One person's reply to a request. The one that decided becomes the ``Answer`` once it ``settles``.

    ``stands``: approved (as proposed), modified (edited first), rejected, overrode (by a right beyond the policy),
    answered. ``seen`` is the fingerprint of what was shown; ``right`` is the text why this person was allowed.
    """

    id = CharField(max_length=36, primary_key=True)
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="replies")
    by = models.ForeignKey(PERSON, null=True, on_delete=models.PROTECT, db_index=False, related_name="+")
    via = CharField(max_length=20)
    """page | api | link | batch | deadline."""
    right = CharField(max_length=300, blank=True)
    acting_for = CharField(max_length=150, blank=True)
    value = EncryptedJsonField("reply", ("id",), null=True)
    verdict = CharField(max_length=40)
    stands = CharField(max_length=12)
    reason = EncryptedTextField("reply", ("id",), blank=True, default="")
    seen = CharField(max_length=64, blank=True)
    at = MomentField()
    settles = MomentField(null=True)
    """When it takes effect, after it decided; null before it decided and once it has taken effect."""
    undone = MomentField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["request", "by"], condition=Q(undone__isnull=True), name="one_reply_per_person"
            )
        ]
        indexes = [
            models.Index(
                fields=["settles"], condition=Q(settles__isnull=False, undone__isnull=True), name="reply_to_settle"
            ),
            models.Index(fields=["by", "-at"], name="reply_by_person"),
            models.Index(fields=["request", "by"], condition=Q(undone__isnull=False), name="reply_undone"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} to {self.request_id}"


class Comment(models.Model):
    """A comment in a request's thread: a comment, a question back (``ask``), or an answer to it (``reply``)."""

    id = CharField(max_length=36, primary_key=True)
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="comments")
    by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    kind = CharField(max_length=10, default="comment")
    text = EncryptedTextField("comment", ("id",))
    mentions = JsonField(default=list)
    at = MomentField()

    class Meta:
        indexes = [models.Index(fields=["request", "at"], name="comment_by_request")]

    def __str__(self) -> str:
        return f"{self.kind} on {self.request_id}"


class Draft(models.Model):
    """One person's draft of an answer: the fields as the browser would send them."""

    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, db_index=False, related_name="drafts")
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    fields = EncryptedJsonField("draft", ("request_id", "user_id"), default=dict)
    at = MomentField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["request", "user"], name="one_draft_per_person")]

    def __str__(self) -> str:
        return f"draft of {self.user_id} for {self.request_id}"


class Presence(models.Model):
    """Who has seen a request, and who has it open now: ``seen`` is renewed while the page is open."""

    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, db_index=False, related_name="presences")
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    since = MomentField()
    """Since when without interruption."""
    seen = MomentField()
    typing = MomentField(null=True)
    taken = MomentField(null=True)
    """When this person took the request over from those who had it open."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["request", "user"], name="one_presence_per_person")]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.request_id}"


class Absence(models.Model):
    """Out of office: another person decides on behalf of this one during a period."""

    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="absences")
    delegate = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="stands_in_for")
    since = MomentField()
    until = MomentField()

    def __str__(self) -> str:
        return f"{self.delegate_id} for {self.user_id}"


class SavedView(models.Model):
    """A named filter of a list, the owner's or shared with everyone."""

    id = CharField(max_length=36, primary_key=True)
    owner = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    page = CharField(max_length=20)
    name = CharField(max_length=80)
    query = CharField(max_length=1000)
    """The address's query string."""
    shared = models.BooleanField(default=False)
    created = MomentField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "page", "name"], name="one_view_per_name")]

    def __str__(self) -> str:
        return self.name


class Shown(models.Model):
    """What a person was shown, stored once per content: ``id`` is request and fingerprint."""

    id = CharField(max_length=130, primary_key=True)
    request = CharField(max_length=36, db_index=True)
    kind = CharField(max_length=10)
    """card (its JSON) | page (the HTML)."""
    body = EncryptedTextField("shown", ("id",))
    at = MomentField()

    def __str__(self) -> str:
        return self.id


class AuditEntry(models.Model):
    """One action of a person. ``hash`` covers the entry and the previous one; it refers to no rows that may be
    pruned.
    """

    n = models.BigIntegerField(primary_key=True)
    at = MomentField()
    actor = CharField(max_length=150)
    right = CharField(max_length=300, blank=True)
    verb = CharField(max_length=40)
    workflow = CharField(max_length=200, blank=True)
    run = CharField(max_length=ID, blank=True)
    request = CharField(max_length=36, blank=True)
    facts = EncryptedJsonField("audit", ("n",), default=dict)
    prev = CharField(max_length=64)
    hash = CharField(max_length=64)
    signature = CharField(max_length=80, blank=True, default="")
    """Of ``n`` and ``hash``, by a key that is not in the database; empty in entries from before signing."""

    class Meta:
        indexes = [
            models.Index(fields=["run", "n"], name="audit_by_run"),
            models.Index(fields=["actor", "n"], name="audit_by_actor"),
            models.Index(fields=["workflow", "n"], name="audit_by_workflow"),
            models.Index(fields=["request", "n"], name="audit_by_request"),
        ]

    def __str__(self) -> str:
        return f"{self.n} {self.actor} {self.verb}"


class AuditHead(models.Model):
    """The end of the chain: one row, locked while an entry is appended."""

    n = models.BigIntegerField(default=0)
    hash = CharField(max_length=64, blank=True)
    signature = CharField(max_length=80, blank=True, default="")

    def __str__(self) -> str:
        return str(self.n)


class Notice(models.Model):
    """The outbox: a notification on one channel, not before ``due``, retried until it is ``sent``."""

    id = CharField(max_length=36, primary_key=True)
    user = models.ForeignKey(PERSON, null=True, on_delete=models.CASCADE, db_index=False, related_name="notices")
    kind = CharField(max_length=20)
    """A name of ``wfdash.notifications.kinds``."""
    channel = CharField(max_length=12)
    """browser | mail | push | apprise | webhook."""
    target = CharField(max_length=36, blank=True)
    """The id of the webhook, or of the subscribed browser."""
    request = models.ForeignKey(REQUEST, null=True, on_delete=models.CASCADE, related_name="+")
    workflow = CharField(max_length=200, blank=True, db_default="", default="")
    """What it is about, if not a request: only people who may see this workflow get it."""
    payload = EncryptedJsonField("notice", ("id",), default=dict)
    once = CharField(max_length=200, null=True, unique=True)
    """A second notification with the same key is not written."""
    created = MomentField()
    due = MomentField()
    attempts = models.IntegerField(default=0)
    sent = MomentField(null=True)
    given_up = MomentField(null=True)
    read = MomentField(null=True)
    error = CharField(max_length=500, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["due"], condition=Q(sent__isnull=True, given_up__isnull=True), name="notice_to_send"),
            models.Index(fields=["created"], name="notice_by_time"),
            models.Index(fields=["user", "channel", "-id"], name="notice_of_person"),
            models.Index(fields=["user", "channel", "-id"], condition=Q(read__isnull=True), name="notice_unread"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.channel}"


class Preference(models.Model):
    """A person's notification settings: see ``wfdash.notifications.preferences`` for the shape of ``data``."""

    user = models.OneToOneField(PERSON, primary_key=True, on_delete=models.CASCADE, related_name="preference")
    data = JsonField(default=dict)
    looks = JsonField(default=dict)
    """Their view settings of lists: ``{"runs": {"columns": [...]}}``."""

    def __str__(self) -> str:
        return f"preferences of {self.user_id}"


class PushSubscription(models.Model):
    """A browser that a person gets notifications in: an address at its push service, and the keys to encrypt with."""

    id = CharField(max_length=36, primary_key=True)
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="push_subscriptions")
    digest = CharField(max_length=64, unique=True)
    """SHA-256 of the address: a browser is subscribed once, for the person who did so last."""
    data = EncryptedJsonField("push", ("id",))
    """``{"endpoint", "p256dh", "auth"}``: who has them can write to this browser."""
    name = CharField(max_length=80)
    created = MomentField()
    sent = MomentField(null=True)

    def __str__(self) -> str:
        return self.name


class UsedLink(models.Model):
    """A signed answer link that was used: its nonce works only once."""

    nonce = CharField(max_length=36, primary_key=True)
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    at = MomentField()

    def __str__(self) -> str:
        return self.nonce

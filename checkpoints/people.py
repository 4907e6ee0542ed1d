"""What people do to requests, as rows: replies, talk, presence, absence, notices, and the record of all of it.

Append-only where it counts: a reply that was undone stays with the time it was; audit entries are never changed.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.fields import JsonField, SealedJsonField, SealedTextField

PERSON = settings.AUTH_USER_MODEL
REQUEST = "checkpoints.HumanRequest"


class Reply(models.Model):
    """What one person said to a request. The one that decided becomes the ``Answer`` once it ``settles``.

    ``stands``: approved (as proposed), modified (edited first), rejected, overrode (by a right beyond the policy),
    answered. ``seen`` is the fingerprint of what was shown; ``right`` says in words why this person was allowed.
    """

    id = models.CharField(max_length=36, primary_key=True)
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="replies")
    by = models.ForeignKey(PERSON, null=True, on_delete=models.PROTECT, related_name="+")
    via = models.CharField(max_length=20)
    """page | api | link | batch | deadline."""
    right = models.CharField(max_length=300, blank=True)
    acting_for = models.CharField(max_length=150, blank=True)
    value = SealedJsonField("reply", ("id",), null=True)
    verdict = models.CharField(max_length=40)
    stands = models.CharField(max_length=12)
    reason = SealedTextField("reply", ("id",), blank=True, default="")
    seen = models.CharField(max_length=64, blank=True)
    at = models.DateTimeField()
    settles = models.DateTimeField(null=True)
    """It decided, and takes effect then; null before it decided and once it has taken effect."""
    undone = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["request", "by"], condition=Q(undone__isnull=True), name="one_reply_per_person"
            )
        ]
        indexes = [
            models.Index(
                fields=["settles"], condition=Q(settles__isnull=False, undone__isnull=True), name="reply_to_settle"
            )
        ]

    def __str__(self) -> str:
        return f"{self.verdict} to {self.request_id}"


class Comment(models.Model):
    """A line in a request's thread: a comment, a question back (``ask``), or what was said to it (``reply``)."""

    id = models.CharField(max_length=36, primary_key=True)
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="comments")
    by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    kind = models.CharField(max_length=10, default="comment")
    text = SealedTextField("comment", ("id",))
    mentions = JsonField(default=list)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["request", "at"], name="comment_by_request")]

    def __str__(self) -> str:
        return f"{self.kind} on {self.request_id}"


class Draft(models.Model):
    """A half-filled answer of one person: the fields as the browser would send them."""

    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, db_index=False, related_name="drafts")
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    fields = SealedJsonField("draft", ("request_id", "user_id"), default=dict)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["request", "user"], name="one_draft_per_person")]

    def __str__(self) -> str:
        return f"draft of {self.user_id} for {self.request_id}"


class Presence(models.Model):
    """Who has seen a request, and who has it open now: ``seen`` is renewed while the page is open."""

    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, db_index=False, related_name="presences")
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    since = models.DateTimeField()
    """Since when without a break."""
    seen = models.DateTimeField()
    typing = models.DateTimeField(null=True)
    taken = models.DateTimeField(null=True)
    """When this person took the request over from whoever had it open before."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["request", "user"], name="one_presence_per_person")]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.request_id}"


class Absence(models.Model):
    """A person is away and another decides for them meanwhile."""

    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="absences")
    delegate = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="stands_in_for")
    since = models.DateTimeField()
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.delegate_id} for {self.user_id}"


class SavedView(models.Model):
    """A named filter of a list, the owner's or everybody's."""

    id = models.CharField(max_length=36, primary_key=True)
    owner = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=20)
    name = models.CharField(max_length=80)
    query = models.CharField(max_length=1000)
    """The address's query string."""
    shared = models.BooleanField(default=False)
    created = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "page", "name"], name="one_view_per_name")]

    def __str__(self) -> str:
        return self.name


class Shown(models.Model):
    """What a person was shown, kept once per content: ``id`` is request and fingerprint."""

    id = models.CharField(max_length=130, primary_key=True)
    request = models.CharField(max_length=36, db_index=True)
    kind = models.CharField(max_length=10)
    """card (its JSON) | page (the HTML)."""
    body = SealedTextField("shown", ("id",))
    at = models.DateTimeField()

    def __str__(self) -> str:
        return self.id


class AuditEntry(models.Model):
    """One human act. ``hash`` covers the entry and the one before it; nothing refers to rows that may be pruned."""

    n = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    right = models.CharField(max_length=300, blank=True)
    verb = models.CharField(max_length=40)
    workflow = models.CharField(max_length=200, blank=True)
    run = models.CharField(max_length=36, blank=True)
    request = models.CharField(max_length=36, blank=True)
    facts = SealedJsonField("audit", ("n",), default=dict)
    prev = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        indexes = [
            models.Index(fields=["run", "n"], name="audit_by_run"),
            models.Index(fields=["actor", "n"], name="audit_by_actor"),
            models.Index(fields=["workflow", "n"], name="audit_by_workflow"),
        ]

    def __str__(self) -> str:
        return f"{self.n} {self.actor} {self.verb}"


class AuditHead(models.Model):
    """The end of the chain: one row, locked by whoever appends."""

    n = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return str(self.n)


class Notice(models.Model):
    """The outbox: something a person is to be told on one channel, not before ``due``, tried until it is ``sent``."""

    id = models.CharField(max_length=36, primary_key=True)
    user = models.ForeignKey(PERSON, null=True, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=20)
    """opened | reminder | escalated | assigned | mentioned | asked | replied | taken | decided."""
    channel = models.CharField(max_length=12)
    """browser | mail | webhook | apprise."""
    target = models.CharField(max_length=36, blank=True)
    """The webhook's id."""
    request = models.ForeignKey(REQUEST, null=True, on_delete=models.CASCADE, related_name="+")
    payload = SealedJsonField("notice", ("id",), default=dict)
    once = models.CharField(max_length=200, null=True, unique=True)
    """A second notice of the same key is not written."""
    created = models.DateTimeField()
    due = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    sent = models.DateTimeField(null=True)
    given_up = models.DateTimeField(null=True)
    read = models.DateTimeField(null=True)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["due"], condition=Q(sent__isnull=True, given_up__isnull=True), name="notice_to_send"),
            models.Index(fields=["user", "-created"], name="notice_by_user"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.channel}"


class Preference(models.Model):
    """How a person wants to be told: see ``wfdash.notices.preferences`` for the shape of ``data``."""

    user = models.OneToOneField(PERSON, primary_key=True, on_delete=models.CASCADE, related_name="preference")
    data = JsonField(default=dict)
    looks = JsonField(default=dict)
    """How they look at lists: ``{"runs": {"columns": [...]}}``."""

    def __str__(self) -> str:
        return f"preferences of {self.user_id}"


class Webhook(models.Model):
    """An address that is told of requests, signed with its own secret."""

    id = models.CharField(max_length=36, primary_key=True)
    name = models.CharField(max_length=80)
    url = models.CharField(max_length=500)
    secret = SealedTextField("webhook", ("id",))
    workflow = models.CharField(max_length=200, default="*")
    kinds = JsonField(default=list)
    active = models.BooleanField(default=True)
    created_by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    created = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class UsedLink(models.Model):
    """A signed answer link that was used: its nonce decides only once."""

    nonce = models.CharField(max_length=36, primary_key=True)
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()

    def __str__(self) -> str:
        return self.nonce

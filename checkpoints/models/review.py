"""The tables of requests and what people do to them, of webhooks and notifications, and of the audit.

Append-only where it counts: a reply that was undone stays with the time it was; audit entries are never changed.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.limits import ID
from checkpoints.models.fields import (
    CharField,
    CoveringIndex,
    EncryptedJsonField,
    EncryptedTextField,
    Headline,
    JsonField,
    MomentField,
)
from checkpoints.records import SIGNAL
from checkpoints.rules import DEADLINE, answer_digest, rule_name

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
        indexes = [models.Index(fields=["workflow"], condition=Q(run=None), name="webhook_of_workflow")]

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
    """The message as a template: see ``wfdash.domain.hooks``."""
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


# Requests to people, and the answers that won.

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
    assignee = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, db_index=False, related_name="assigned")
    stuck = CharField(max_length=12, blank=True, db_default="", default="")
    """Why it cannot be decided: no one, few, split, unknown (see ``wfdash.access.directory``); empty where it can."""
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
            models.Index(fields=["assignee"], condition=Q(assignee__isnull=False), name="request_assigned"),
        ]

    def __str__(self) -> str:
        return str(self.card.get("subject") or self.step)


OPEN = Q(closed__isnull=True, answered__isnull=True, settles__isnull=True)
"""Requests that wait for an answer."""
FOR_PEOPLE = ~Q(kind=SIGNAL)
"""Requests that people answer: all but those that wait for a signal."""


class Decided(models.Model):
    """What an answer and a reply have alike. Neither ``by`` nor ``rule``: a deadline."""

    rule = models.IntegerField(null=True)
    """The rule that gave it, instead of a person."""

    class Meta:
        abstract = True

    @property
    def decider(self) -> str:
        """Return who decided: a user name, ``rule r7``, or ``a deadline``."""
        by: Any = getattr(self, "by", None)
        return str(by.get_username()) if by else rule_name(self.rule) or DEADLINE


class Answer(Decided):
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
        by = rule_name(self.rule) or self.by_id
        given = (self.request_id, self.request.key, self.value, by, self.at, self.acting_for, self.others)
        self.digest = answer_digest(*given)
        return self


REQUEST = "checkpoints.HumanRequest"


class Reply(Decided):
    """One person's reply to a request. The one that decided becomes the ``Answer`` once it ``settles``.

    ``stands``: approved (as proposed), modified (edited first), rejected, overrode (by a right beyond the policy),
    answered. ``seen`` is the fingerprint of what was shown; ``right`` is the text why this person was allowed.
    """

    id = CharField(max_length=36, primary_key=True)
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="replies")
    by = models.ForeignKey(PERSON, null=True, on_delete=models.PROTECT, db_index=False, related_name="+")
    via = CharField(max_length=20)
    """page | api | link | slack | batch | deadline | rule."""
    right = CharField(max_length=300, blank=True)
    acting_for = CharField(max_length=150, blank=True)
    maker = CharField(max_length=150, blank=True, db_default="", default="")
    """Who made the token by which a service account gave it: theirs, too, where a later request wants someone else."""
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


class Rule(models.Model):
    """What answers requests of one step where ``condition`` holds, on behalf of no one.

    ``state``: draft | rehearsed | shadow | on | suspended, ``since`` when. Its row is locked while it answers, so that
    it gives no answer once its suspension was committed.
    """

    id = models.IntegerField(primary_key=True)
    workflow = CharField(max_length=200)
    step = CharField(max_length=200)
    kind = CharField(max_length=40)
    condition = EncryptedTextField("rule", ("id",))
    """A filter over values of the card."""
    action = CharField(max_length=40)
    owner = models.ForeignKey(PERSON, on_delete=models.PROTECT, related_name="+")
    state = CharField(max_length=10, default="draft")
    since = MomentField()
    created = MomentField()
    expires = MomentField()
    quota = models.IntegerField()
    """Answers a day; one more suspends it."""
    days = models.IntegerField()
    """How long it runs beside people before it can be switched on."""
    share = models.FloatField()
    """Of the requests that it could answer, how many go to people."""
    version = CharField(max_length=64, blank=True)
    form = CharField(max_length=64)
    """Of the workflow and of the question when it was rehearsed last, or made."""
    pinned = MomentField()
    """When these were read."""
    switched_by = CharField(max_length=150, blank=True)
    problem = CharField(max_length=500, blank=True)
    """Why it is suspended."""
    rehearsal = EncryptedJsonField("rule", ("id",), null=True)
    tally = JsonField(default=dict)
    """What it did today, and how many requests fitted on the days before."""

    def __str__(self) -> str:
        return f"r{self.id}"


class RuleUse(models.Model):
    """A request that fits a rule. ``kind``: answer (it answered), sample (left to people), shadow (it only would have).

    ``agrees``: whether people, who do not see this, decided as the rule would have; null until they have.
    """

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, db_index=False, related_name="uses")
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="+")
    kind = CharField(max_length=8)
    at = MomentField()
    agrees = models.BooleanField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rule", "request"], name="one_use_per_request")]
        indexes = [
            models.Index(fields=["rule", "-id"], name="use_by_rule"),
            models.Index(
                fields=["rule"], condition=Q(agrees__isnull=True, kind__in=["shadow", "sample"]), name="use_to_compare"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.rule_id}"


class Receipt(models.Model):
    """What a person signed with their passkey when they gave the reply with this ``id``; kept like the audit."""

    id = CharField(max_length=36, primary_key=True)
    request = CharField(max_length=36, db_index=True)
    user = models.ForeignKey(PERSON, on_delete=models.PROTECT, db_index=False, related_name="+")
    counter = models.BigIntegerField()
    """How many replies they have signed with it: of two with the same number one is refused."""
    key = CharField(max_length=64)
    """The fingerprint of the public key."""
    signs = models.BigIntegerField()
    """How often the authenticator says it has signed; 0: it does not count."""
    body = EncryptedJsonField("receipt", ("id",))

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "counter"], name="one_receipt_per_count")]

    def __str__(self) -> str:
        return f"receipt {self.counter} of {self.user_id}"


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


class Snooze(models.Model):
    """One person does not want to see a request in their queue until a time; others do."""

    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, db_index=False, related_name="snoozes")
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    until = MomentField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["request", "user"], name="one_snooze_per_person")]

    def __str__(self) -> str:
        return f"{self.request_id} of {self.user_id} until {self.until}"


class SecondLook(models.Model):
    """A decision for which a second person is asked, who is not shown it: ``of`` first, anyone else who may.

    ``settled``: what became of a disagreement (first, second or both may stand).
    """

    request = models.OneToOneField(REQUEST, on_delete=models.CASCADE, primary_key=True, related_name="second_look")
    of = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, db_index=False, related_name="+")
    asked = MomentField()
    by = models.ForeignKey(PERSON, null=True, on_delete=models.PROTECT, db_index=False, related_name="+")
    at = MomentField(null=True)
    value = EncryptedJsonField("second look", ("request_id",), null=True)
    verdict = CharField(max_length=40, blank=True)
    reason = EncryptedTextField("second look", ("request_id",), blank=True, default="")
    settled = CharField(max_length=6, blank=True)
    settled_by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, db_index=False, related_name="+")

    class Meta:
        indexes = [models.Index(fields=["-asked"], name="second_look_by_time")]

    def __str__(self) -> str:
        return f"second look at {self.request_id}"


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
    """A name of ``wfdash.notifications.preferences``."""
    channel = CharField(max_length=12)
    """browser | mail | push | apprise | slack | webhook."""
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


class ChatAccount(models.Model):
    """A person's own account at a chat service: ``team`` and ``uid``, as that service says, once it gave ``code`` back.

    ``code``: the digest of a one-time code made ``at`` that time; empty once it was used.
    """

    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    service = CharField(max_length=12)
    team = CharField(max_length=80, blank=True)
    uid = CharField(max_length=80, null=True)
    code = CharField(max_length=64, blank=True)
    at = MomentField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "service"], name="one_chat_account_per_person"),
            models.UniqueConstraint(fields=["service", "team", "uid"], name="one_person_per_chat_account"),
        ]

    def __str__(self) -> str:
        return f"{self.uid or 'not connected'} at {self.service}"


class ChatMessage(models.Model):
    """A notice as a message at a chat service: its ``place`` (empty: it may be there), until it is ``done``.

    ``shown``: a digest of the state of the request that it shows.
    """

    notice = models.OneToOneField(Notice, primary_key=True, on_delete=models.CASCADE, related_name="+")
    place = CharField(max_length=120, blank=True)
    shown = CharField(max_length=64, blank=True)
    done = MomentField(null=True)

    class Meta:
        indexes = [models.Index(fields=["notice"], condition=Q(done__isnull=True), name="chat_message_open")]

    def __str__(self) -> str:
        return self.place


class UsedLink(models.Model):
    """A signed answer link that was used: its nonce works only once."""

    nonce = CharField(max_length=36, primary_key=True)
    request = models.ForeignKey(REQUEST, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    at = MomentField()

    def __str__(self) -> str:
        return self.nonce

"""The tables. State is a row: answered because an Answer exists, driven because a live Claim exists.

``Run.phase`` is what a run needs next, kept as a column so that lists of a million stay fast; what people are
told is derived from it in ``records.status_of`` alone. Nobody calls ``save()`` on a row that exists: verbs are
conditional updates that check how many rows they changed.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from checkpoints import operations, people
from checkpoints.columns import CoveringIndex, Headline
from checkpoints.fields import JsonField, SealedJsonField, SealedTextField
from checkpoints.operations import PERSON
from checkpoints.records import Phase, Reason
from checkpoints.seal import CLEAR


class WorkflowVersion(models.Model):
    """A graph that runs were started under, kept so that old runs can still be drawn."""

    workflow = models.CharField(max_length=200)
    version = models.CharField(max_length=64)
    description = JsonField()
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workflow", "version"], name="one_row_per_workflow_version")]

    def __str__(self) -> str:
        return f"{self.workflow} {self.version[:8]}"


class Run(models.Model):
    """One execution of a workflow. ``seq``, ``n`` and ``epoch`` count up under the row's own lock."""

    id = models.CharField(max_length=36, primary_key=True)
    workflow = models.CharField(max_length=200)
    version = models.CharField(max_length=64, blank=True)
    engine = models.CharField(max_length=40, default="native")
    title = models.CharField(max_length=300, blank=True)
    phase = models.CharField(max_length=12, choices=[(p.value, p.value) for p in Phase], default=Phase.READY.value)
    input = SealedJsonField("run", ("id",), null=True)
    output = SealedJsonField("run", ("id",), null=True)
    error = SealedJsonField("run", ("id",), null=True)
    seq = models.BigIntegerField(default=0)
    n = models.BigIntegerField(default=0)
    epoch = models.BigIntegerField(default=0)
    attempts = models.IntegerField(default=0)
    wake_at = models.DateTimeField(null=True)
    retry = JsonField(null=True)
    family = models.CharField(max_length=36)
    forked_from = models.CharField(max_length=36, null=True)
    acted_by = models.CharField(max_length=150, blank=True)
    created_by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    created = models.DateTimeField()
    updated = models.DateTimeField()
    finished = models.DateTimeField(null=True)
    start_key = models.CharField(max_length=200, null=True, unique=True)
    altered = models.CharField(max_length=60, blank=True, db_default="", default="")
    """How people changed its course, for ever: restored, edited, overridden; several with commas."""
    noted = models.BooleanField(default=False, db_default=False)
    """Whether its failure can be searched for."""
    ending = models.CharField(max_length=150, blank=True, db_default="", default="")
    """Who asked that it be cancelled as soon as the step that runs has ended."""
    listed = models.BooleanField(default=False, db_default=False)
    """Whether the facts it is found by are written."""

    class Meta:
        indexes = [
            models.Index(fields=["-created", "-id"], name="run_newest"),
            models.Index(fields=["version", "-created", "-id"], name="run_by_version"),
            models.Index(fields=["-created", "-id"], condition=Q(altered__gt=""), name="run_altered"),
            models.Index(fields=["-created", "-id"], condition=Q(forked_from__isnull=False), name="run_forked"),
            models.Index(fields=["finished"], condition=Q(finished__isnull=False), name="run_finished"),
            models.Index(fields=["id"], condition=Q(listed=False), name="run_to_list"),
            models.Index(fields=["created_by", "-created", "-id"], name="run_by_person"),
            models.Index(fields=["id"], condition=Q(phase="failed", noted=False), name="run_to_note"),
            models.Index(fields=["workflow", "-created", "-id"], name="run_by_workflow"),
            models.Index(fields=["phase", "-created", "-id"], name="run_by_phase"),
            models.Index(fields=["wake_at"], condition=Q(wake_at__isnull=False), name="run_to_wake"),
            models.Index(fields=["family"], name="run_by_family"),
            models.Index(fields=["id"], condition=~Q(ending=""), name="run_to_end"),
        ]

    def __str__(self) -> str:
        return f"{self.workflow} {self.id}"


class Claim(models.Model):
    """A worker drives this run until ``expires`` (database time); each commit extends it by ``ttl`` seconds."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="claim")
    token = models.CharField(max_length=36, unique=True)
    worker = models.CharField(max_length=200)
    epoch = models.BigIntegerField()
    ttl = models.FloatField(default=30.0)
    expires = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.worker} drives {self.run_id}"


class Checkpoint(models.Model):
    """Everything needed to continue a run. ``body`` is chunk-encoded JSON text; history reads only the rest."""

    id = models.CharField(max_length=36, primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="checkpoints")
    n = models.BigIntegerField()
    parent = models.CharField(max_length=36, null=True)
    workflow = models.CharField(max_length=200)
    version = models.CharField(max_length=64)
    engine = models.CharField(max_length=40)
    step = models.CharField(max_length=200, null=True)
    reason = models.CharField(max_length=12, choices=[(r.value, r.value) for r in Reason])
    label = models.CharField(max_length=200, null=True)
    created = models.DateTimeField()
    format = models.IntegerField()
    size = models.BigIntegerField(default=0)
    intact = models.BooleanField(default=True, db_column="clean")
    seq = models.BigIntegerField(default=0)
    flaw = models.TextField(blank=True, default="", db_default="")
    waiting = models.IntegerField(default=0, db_default=0)
    body = SealedTextField("checkpoint", ("run_id", "id"))

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "n"], name="one_checkpoint_per_n")]
        indexes = [
            models.Index(fields=["run", "n"], condition=Q(waiting__gt=0), name="checkpoint_waiting"),
            models.Index(fields=["run", "n"], condition=Q(label__isnull=False), name="checkpoint_labelled"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} #{self.n}"


class Chunk(models.Model):
    """A piece of state, stored once per family of runs and found by its hash."""

    family = models.CharField(max_length=36)
    hash = models.CharField(max_length=64)
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["family", "hash"], name="one_row_per_chunk")]

    def __str__(self) -> str:
        return f"{self.hash[:12]}"


class HumanRequest(models.Model):
    """A question to people. Open while it has no answer, is not closed, and no reply is about to settle it.

    ``key`` is the engine's name for it; after a restore a new row with the same key reopens the question.
    ``closed_as``: taken (the engine has the answer), withdrawn, superseded (restore), cancelled.
    ``policy`` is ``wfdash.workflow.policy.Policy`` as JSON; ``alarm`` the next moment it names (reminder, escalation,
    deadline). ``risk``: 0 not said, 1 low, 2 medium, 3 high. ``asked``: since when it waits for its requester's word.
    ``subject``: the card's, for lists; null where the card is encrypted.
    """

    id = models.CharField(max_length=36, primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="requests")
    key = models.CharField(max_length=300)
    workflow = models.CharField(max_length=200)
    step = models.CharField(max_length=200)
    kind = models.CharField(max_length=40)
    card = SealedJsonField("request", ("id",), default=dict)
    answer_schema = SealedJsonField("request", ("id",), default=dict)
    by = JsonField(default=list)
    not_by = JsonField(default=list)
    due = models.DateTimeField(null=True)
    created = models.DateTimeField()
    answered = models.DateTimeField(null=True)
    closed = models.DateTimeField(null=True)
    closed_as = models.CharField(max_length=12, blank=True)
    replaces = models.CharField(max_length=36, null=True)
    suggestion = SealedJsonField("request", ("id",), null=True)
    policy = JsonField(default=dict)
    alarm = models.DateTimeField(null=True)
    risk = models.SmallIntegerField(default=0, db_default=0)
    settles = models.DateTimeField(null=True)
    asked = models.DateTimeField(null=True)
    told = models.DateTimeField(null=True)
    """When those who may answer were told that it opened."""
    assignee = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="assigned")
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
                    "workflow",
                    "step",
                    "kind",
                    "due",
                    "risk",
                    "assignee",
                    "asked",
                    "settles",
                    "run",
                    "by",
                    "not_by",
                    "subject",
                    "closed",
                    "answered",
                ],
                condition=Q(closed__isnull=True, answered__isnull=True),
                name="request_open",
            ),
            models.Index(
                fields=["alarm"],
                condition=Q(alarm__isnull=False, closed__isnull=True, answered__isnull=True),
                name="request_alarm",
            ),
            models.Index(
                fields=["created"],
                condition=Q(told__isnull=True, closed__isnull=True, answered__isnull=True),
                name="request_untold",
            ),
        ]

    def __str__(self) -> str:
        return str(self.card.get("subject") or self.step)


OPEN = Q(closed__isnull=True, answered__isnull=True, settles__isnull=True)
"""Requests that wait for an answer."""


class Answer(models.Model):
    """The reply that won. One per request, by the primary key: the second insert fails."""

    request = models.OneToOneField(HumanRequest, primary_key=True, on_delete=models.CASCADE, related_name="answer")
    value = SealedJsonField("answer", ("request_id",), null=True)
    verdict = models.CharField(max_length=40, blank=True)
    by = models.ForeignKey(PERSON, null=True, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.verdict or 'answer'} to {self.request_id}"


class Event(models.Model):
    """One thing that happened in a run; ``seq`` has no gaps and commit order is its order."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="events")
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=60)
    step = models.CharField(max_length=200, null=True)
    data = SealedJsonField("event", ("run_id", "seq"), CLEAR, default=dict)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_event_per_seq")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.seq} {self.kind}"


class Effect(models.Model):
    """A recorded ``ctx.call``: what was about to happen or has happened outside.

    One row per call: an intent becomes the result in place. After a restore the same key may occur again.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="effects")
    key = models.CharField(max_length=300)
    step = models.CharField(max_length=200)
    name = models.CharField(max_length=300)
    once = models.BooleanField(default=False)
    state = models.CharField(max_length=12)
    result = SealedJsonField("effect", ("run_id", "key"), null=True)
    n = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["run", "key"], name="effect_by_key")]

    def __str__(self) -> str:
        return f"{self.name} {self.state}"


class Grant(models.Model):
    """A person's or group's role for one workflow, or for all (``*``)."""

    ROLES = [("viewer", "viewer"), ("reviewer", "reviewer"), ("operator", "operator"), ("admin", "admin")]

    user = models.ForeignKey(PERSON, null=True, blank=True, on_delete=models.CASCADE, related_name="grants")
    group = models.ForeignKey("auth.Group", null=True, blank=True, on_delete=models.CASCADE, related_name="grants")
    workflow = models.CharField(max_length=200, default="*")
    role = models.CharField(max_length=10, choices=ROLES)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True) | Q(user__isnull=True, group__isnull=False),
                name="grant_to_a_person_or_a_group",
            )
        ]

    def __str__(self) -> str:
        return f"{self.user or self.group}: {self.role} of {self.workflow}"


class SignInLink(models.Model):
    """A one-time sign-in link: the hash of its secret, used once, short-lived."""

    secret_hash = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    created = models.DateTimeField(auto_now_add=True)
    expires = models.DateTimeField()
    used = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sign-in link for {self.user_id}"


Bulk = operations.Bulk
IdempotencyKey = operations.IdempotencyKey
RunFact = operations.RunFact
Schedule = operations.Schedule
Signal = operations.Signal
Tally = operations.Tally
TallyMark = operations.TallyMark
WorkerBeat = operations.WorkerBeat
Absence = people.Absence
AuditEntry = people.AuditEntry
AuditHead = people.AuditHead
Comment = people.Comment
Draft = people.Draft
Notice = people.Notice
Preference = people.Preference
Presence = people.Presence
Reply = people.Reply
SavedView = people.SavedView
Shown = people.Shown
UsedLink = people.UsedLink
Webhook = people.Webhook

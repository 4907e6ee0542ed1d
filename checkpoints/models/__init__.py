"""The tables. State is a row: answered because an Answer exists, running because a live Claim exists.

``Run.phase`` is what a run needs next, kept as a column so that lists of a million stay fast; the displayed status is
derived from it only in ``records.status_of``. Actions change rows by conditional updates and check how many changed.
"""

from __future__ import annotations

from typing import TypeVar

from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce

from checkpoints.events import UNENCRYPTED
from checkpoints.limits import ID
from checkpoints.models import operations, review
from checkpoints.models.fields import (
    CharField,
    EncryptedJsonField,
    EncryptedTextField,
    JsonField,
    MomentField,
    TextField,
)
from checkpoints.models.operations import PERSON
from checkpoints.records import Phase, Reason

# Runs that look-ups find, and what is left of a run while it is removed in parts.

Row = TypeVar("Row", bound=models.Model)

REMOVED = " "
"""The workflow of what is left of a run: ``limits`` refuses a name of blanks, so no run has it, no one has rights for
it, and no workflow lists it. Not empty: that is a run whose first commit has no checkpoint yet.
"""


class FoundRuns(models.Manager[Row]):
    """Every run, but for what is left of those that are being removed."""

    def get_queryset(self) -> QuerySet[Row]:
        """Return the runs."""
        return super().get_queryset().exclude(workflow=REMOVED)


class Remains(models.Manager[Row]):
    """What is left of runs that are being removed."""

    def get_queryset(self) -> QuerySet[Row]:
        """Return their rows."""
        return super().get_queryset().filter(workflow=REMOVED)


class Removable(models.Model):
    """A run that can be removed in parts: its row goes last, and no look-up finds it once the first part has gone."""

    objects = FoundRuns()
    remains = Remains()

    class Meta:
        abstract = True


class Run(Removable):
    """One execution of a workflow. ``seq``, ``n`` and ``epoch`` count up under the row's own lock."""

    id = CharField(max_length=ID, primary_key=True)
    workflow = CharField(max_length=200)
    version = CharField(max_length=64, blank=True)
    engine = CharField(max_length=40, default="native")
    title = CharField(max_length=300, blank=True)
    own_title = EncryptedTextField("run.own_title", ("id",), null=True)
    """What it is called, where its author says so (``run_title``, ``ctx.title``): for everyone who sees it."""
    summary = EncryptedTextField("run.summary", ("id",), null=True)
    """The first values of its input: for people who may inspect it."""
    phase = CharField(max_length=12, choices=[(p.value, p.value) for p in Phase], default=Phase.READY.value)
    input = EncryptedJsonField("run", ("id",), null=True)
    output = EncryptedJsonField("run", ("id",), null=True)
    error = EncryptedJsonField("run", ("id",), null=True)
    seq = models.BigIntegerField(default=0)
    n = models.BigIntegerField(default=0)
    epoch = models.BigIntegerField(default=0)
    attempts = models.IntegerField(default=0)
    wake_at = MomentField(null=True)
    retry = JsonField(null=True)
    family = CharField(max_length=ID)
    forked_from = CharField(max_length=ID, null=True)
    follows = CharField(max_length=ID, null=True)
    follows_n = models.BigIntegerField(null=True)
    """The run that it follows up on, which may have been deleted since, and the number of its last checkpoint."""
    thread = CharField(max_length=ID, null=True)
    """The first run of its thread: of runs that follow one another. None while no other run follows it."""
    acted_by = CharField(max_length=150, blank=True)
    created_by = models.ForeignKey(PERSON, null=True, on_delete=models.PROTECT, db_index=False, related_name="+")
    created = MomentField()
    updated = MomentField()
    finished = MomentField(null=True)
    for_workers = models.BooleanField(default=True, db_default=True)
    """Whether workers may take it. Not a run that a program makes by the library: that drives it itself."""
    priority = models.SmallIntegerField(default=0, db_default=0)
    """How soon a worker takes it once it is ready: see ``rules.Priority``."""
    ready_at = MomentField(null=True)
    """When it last became ready; None: when it was created."""
    start_key = CharField(max_length=200, null=True)
    altered = CharField(max_length=60, blank=True, db_default="", default="")
    """How people changed its course: restored, edited, overridden; comma-separated, never removed."""
    requesters = JsonField(null=True)
    """User names of those who count as its requesters besides ``created_by``, permanently; None: no one. They edited
    its values, or those of the run it was forked from, or created the schedule that started it.
    """
    noted = models.BooleanField(default=False, db_default=False)
    """Whether its failure can be searched for."""
    ending = CharField(max_length=150, blank=True, db_default="", default="")
    """Who requested that it end, as ``ending_as`` says (cancelled or paused), as soon as the running step has."""
    ending_as = CharField(max_length=12, default="cancelled", db_default="cancelled")
    listed = models.BooleanField(default=False, db_default=False)
    """Whether its search attributes are written."""
    input_tokens = models.BigIntegerField(null=True)
    output_tokens = models.BigIntegerField(null=True)
    """What its models have used so far; None: nothing. Restoring it takes nothing away."""
    cost = models.BigIntegerField(null=True)
    """What that cost, in billionths of the currency, as far as it is known."""
    unpriced = models.BigIntegerField(null=True)
    """The tokens whose cost is unknown."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["start_key"], condition=Q(start_key__isnull=False), name="one_run_per_start_key"
            )
        ]
        indexes = [
            models.Index(fields=["created", "id"], name="run_newest"),
            models.Index(fields=["version", "-created", "-id"], name="run_by_version"),
            models.Index(fields=["-created", "-id"], condition=Q(altered__gt=""), name="run_altered"),
            models.Index(fields=["-created", "-id"], condition=Q(forked_from__isnull=False), name="run_forked"),
            models.Index(fields=["thread", "-created", "-id"], condition=Q(thread__isnull=False), name="run_by_thread"),
            models.Index(fields=["finished"], condition=Q(finished__isnull=False), name="run_finished"),
            models.Index(
                fields=["phase", "finished", "workflow"], condition=Q(finished__isnull=False), name="run_ended"
            ),
            models.Index(
                fields=["phase", "workflow", "finished", "for_workers"],
                condition=Q(finished__isnull=True),
                name="run_unfinished",
            ),
            # IN is written alike by each version of Django, ``= False`` is not: SQLite proves an index by its words.
            models.Index(fields=["id"], condition=Q(listed__in=[False]), name="run_to_list"),
            models.Index(
                models.F("priority").desc(),
                Coalesce("ready_at", "created"),
                "workflow",
                condition=Q(phase="ready", for_workers=True),
                name="run_to_take",
            ),
            models.Index(fields=["created_by", "-created", "-id"], name="run_by_person"),
            models.Index(fields=["phase", "id"], condition=Q(phase="failed", noted__in=[False]), name="run_to_note"),
            models.Index(fields=["workflow", "-created", "-id"], name="run_by_workflow"),
            models.Index(fields=["phase", "-created", "-id"], name="run_by_phase"),
            models.Index(fields=["wake_at"], condition=Q(wake_at__isnull=False), name="run_to_wake"),
            models.Index(fields=["family"], name="run_by_family"),
            models.Index(fields=["id"], condition=~Q(ending=""), name="run_to_end"),
            models.Index(fields=["-created", "-id"], condition=Q(input_tokens__isnull=False), name="run_with_usage"),
        ]

    def __str__(self) -> str:
        return f"{self.workflow} {self.id}"


class Claim(models.Model):
    """A worker runs this run until ``expires`` (database time); each commit extends it by ``ttl`` seconds."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="claim")
    token = CharField(max_length=36, unique=True)
    worker = CharField(max_length=200)
    epoch = models.BigIntegerField()
    ttl = models.FloatField(default=30.0)
    expires = MomentField()

    def __str__(self) -> str:
        return f"{self.worker} runs {self.run_id}"


class Checkpoint(models.Model):
    """Everything needed to continue a run. ``body`` is chunk-encoded JSON text, which lists leave out."""

    id = CharField(max_length=ID, primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="checkpoints")
    n = models.BigIntegerField()
    parent = CharField(max_length=ID, null=True)
    workflow = CharField(max_length=200)
    version = CharField(max_length=64)
    engine = CharField(max_length=40)
    step = CharField(max_length=200, null=True)
    reason = CharField(max_length=12, choices=[(r.value, r.value) for r in Reason])
    label = CharField(max_length=200, null=True)
    created = MomentField()
    format = models.IntegerField()
    size = models.BigIntegerField(default=0)
    intact = models.BooleanField(default=True, db_column="clean")
    seq = models.BigIntegerField(default=0)
    flaw = TextField(blank=True, default="", db_default="")
    waiting = models.IntegerField(default=0, db_default=0)
    facts = TextField(null=True)
    body = EncryptedTextField("checkpoint", ("run_id", "id"))

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "n"], name="one_checkpoint_per_n")]
        indexes = [
            models.Index(fields=["run", "n"], condition=Q(waiting__gt=0), name="checkpoint_waiting"),
            models.Index(fields=["run", "n"], condition=Q(label__isnull=False), name="checkpoint_labelled"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} #{self.n}"


class Chunk(models.Model):
    """A piece of state, stored once per family of runs under its hash."""

    family = CharField(max_length=ID)
    hash = CharField(max_length=64)
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["family", "hash"], name="one_row_per_chunk")]

    def __str__(self) -> str:
        return f"{self.hash[:12]}"


class Event(models.Model):
    """An event of a run; ``seq`` has no gaps, and its order is commit order."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="events")
    seq = models.BigIntegerField()
    kind = CharField(max_length=60)
    step = CharField(max_length=200, null=True)
    data = EncryptedJsonField("event", ("run_id", "seq"), UNENCRYPTED, default=dict)
    at = MomentField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_event_per_seq")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.seq} {self.kind}"


class Effect(models.Model):
    """A recorded ``ctx.call``: an external call that was about to happen or has happened.

    One row per call: an intent becomes the result in place. After a restore the same key may occur again.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="effects")
    key = CharField(max_length=300)
    step = CharField(max_length=200)
    name = CharField(max_length=300)
    once = models.BooleanField(default=False)
    state = CharField(max_length=12)
    result = EncryptedJsonField("effect", ("run_id", "key"), null=True)
    n = models.BigIntegerField()
    at = MomentField()

    class Meta:
        indexes = [models.Index(fields=["run", "key"], name="effect_by_key")]

    def __str__(self) -> str:
        return f"{self.name} {self.state}"


HumanRequest = review.HumanRequest
Answer = review.Answer
OPEN = review.OPEN
FOR_PEOPLE = review.FOR_PEOPLE
Bulk = operations.Bulk
Consultation = operations.Consultation
IdempotencyKey = operations.IdempotencyKey
PublishedWorkflow = operations.PublishedWorkflow
RunFact = operations.RunFact
KnownError = operations.KnownError
Schedule = operations.Schedule
Signal = operations.Signal
Tally = operations.Tally
TallyMark = operations.TallyMark
TallyRollup = operations.TallyRollup
Leader = operations.Leader
WorkerBeat = operations.WorkerBeat
WorkflowVersion = operations.WorkflowVersion
Grant = operations.Grant
RecoveryCode = operations.RecoveryCode
SecondFactor = operations.SecondFactor
ServiceAccount = operations.ServiceAccount
SignInLink = operations.SignInLink
SignInTries = operations.SignInTries
Token = operations.Token
Absence = review.Absence
AuditEntry = review.AuditEntry
AuditHead = review.AuditHead
Comment = review.Comment
Draft = review.Draft
SecondLook = review.SecondLook
Snooze = review.Snooze
Notice = review.Notice
Preference = review.Preference
Presence = review.Presence
PushSubscription = review.PushSubscription
ChatAccount = review.ChatAccount
ChatMessage = review.ChatMessage
Receipt = review.Receipt
Reply = review.Reply
Rule = review.Rule
RuleUse = review.RuleUse
SavedView = review.SavedView
Shown = review.Shown
UsedLink = review.UsedLink
Webhook = review.Webhook
DeliveryAttempt = review.DeliveryAttempt
IncomingHook = review.IncomingHook
IncomingDelivery = review.IncomingDelivery

"""The tables of accounts (roles, tokens, links, second factors) and of operations (schedules, signals, metrics)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.limits import ID
from checkpoints.models.fields import CharField, EncryptedJsonField, EncryptedTextField, JsonField, MomentField

PERSON = settings.AUTH_USER_MODEL


class SignInLink(models.Model):
    """A one-time sign-in link: the hash of its secret, used once, short-lived."""

    secret_hash = CharField(max_length=64, unique=True)
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    created = MomentField(auto_now_add=True)
    expires = MomentField()
    used = MomentField(null=True)

    def __str__(self) -> str:
        return f"sign-in link for {self.user_id}"


class SignInTries(models.Model):
    """Attempts since ``began``: failed sign-ins of a name, address, browser or all; actions of one kind of a person."""

    key = CharField(max_length=64, primary_key=True)
    began = MomentField()
    count = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.count} tries of {self.key}"


class SecondFactor(models.Model):
    """A person's authenticator: its code is required at sign-in once it is ``confirmed``."""

    user = models.OneToOneField(PERSON, primary_key=True, on_delete=models.CASCADE, related_name="second_factor")
    secret = EncryptedTextField("second-factor", ("user_id",))
    """The TOTP key in base 32 (RFC 6238: SHA-1, six digits, 30 seconds)."""
    created = MomentField()
    confirmed = MomentField(null=True)
    last_step = models.BigIntegerField(default=0)
    """The 30-second step of the last accepted code: this one and earlier ones are not accepted again."""

    def __str__(self) -> str:
        return f"second factor of {self.user_id}"


class RecoveryCode(models.Model):
    """A code that replaces the authenticator once: only its hash is stored."""

    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="recovery_codes")
    code_hash = CharField(max_length=64)
    used = MomentField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "code_hash"], name="one_row_per_recovery_code")]

    def __str__(self) -> str:
        return f"recovery code of {self.user_id}"


class Grant(models.Model):
    """A person's or group's role for one workflow, or for all (``*``)."""

    ROLES = [(role, role) for role in ("viewer", "reviewer", "author", "operator", "admin")]

    user = models.ForeignKey(PERSON, null=True, blank=True, on_delete=models.CASCADE, related_name="grants")
    group = models.ForeignKey("auth.Group", null=True, blank=True, on_delete=models.CASCADE, related_name="grants")
    workflow = CharField(max_length=200, default="*")
    role = CharField(max_length=10, choices=ROLES)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True) | Q(user__isnull=True, group__isnull=False),
                name="grant_to_a_person_or_a_group",
            )
        ]

    def __str__(self) -> str:
        return f"{self.user or self.group}: {self.role} of {self.workflow}"


class ServiceAccount(models.Model):
    """A user that is a program: no password, no sign-in, no mail. It acts by its tokens alone."""

    user = models.OneToOneField(PERSON, primary_key=True, on_delete=models.CASCADE, related_name="service_account")
    about = CharField(max_length=300, blank=True)
    """What it is for, in a few words."""
    created = MomentField()

    def __str__(self) -> str:
        return f"service account {self.user_id}"


class Token(models.Model):
    """A secret by which a program acts as its owner, within its scopes: the hash of the secret, never the secret."""

    id = CharField(max_length=12, primary_key=True)
    """The part of it that may be shown."""
    secret_hash = CharField(max_length=64)
    name = CharField(max_length=80)
    owner = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="tokens")
    rights = JsonField()
    """A list of the rights that it may use, of those its owner has."""
    workflows = JsonField()
    """A list of the workflows it may be used for; ``*``: every one."""
    created = MomentField()
    created_by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    expires = MomentField(null=True)
    used = MomentField(null=True)
    """When it was last used, to the minute."""
    revoked = MomentField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "name"], condition=Q(revoked__isnull=True), name="one_token_per_name_and_owner"
            )
        ]

    def __str__(self) -> str:
        return f"token {self.name} of {self.owner_id}"


class RunFact(models.Model):
    """A search attribute of a run: ``tag``, ``error`` (its class), ``title``, ``word``, or ``input.…`` (a path).

    ``number`` is the text as a number where it is one. ``created`` is the run's, so that an index returns the newest
    first. Where content is encrypted none of it is indexed: no words, no input.
    """

    run = models.ForeignKey("checkpoints.Run", on_delete=models.CASCADE, db_index=False, related_name="facts")
    name = CharField(max_length=200)
    text = CharField(max_length=200)
    number = models.FloatField(null=True)
    created = MomentField()

    class Meta:
        indexes = [
            # All look-ups by run: SQLite, which has no statistics here, prefers a covering index.
            models.Index(fields=["run", "name", "text", "number"], name="fact_by_run"),
            # PostgreSQL: by code points, whatever the database's collation, so that prefixes are found.
            models.Index(
                fields=["name", "text", "-created", "-run"],
                opclasses=["varchar_ops", "varchar_pattern_ops", "timestamptz_ops", "varchar_ops"],
                name="fact_by_text",
            ),
            models.Index(
                fields=["name", "number", "-created", "-run"],
                condition=Q(number__isnull=False),
                name="fact_by_number",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.name}={self.text}"


class Bulk(models.Model):
    """A bulk action. ``done``: how many runs it was applied to so far, in their order; ``acted``: how many succeeded.
    ``refused``: ``{"why": {words: how many}, "some": [[run, title, words]]}``.
    """

    id = CharField(max_length=36, primary_key=True)
    verb = CharField(max_length=20)
    facts = JsonField(default=dict)
    """What the action needs (tags), and the filter the runs were selected by."""
    runs = JsonField(default=list)
    done = models.IntegerField(default=0)
    acted = models.IntegerField(default=0)
    refused = JsonField(default=dict)
    by = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    at = MomentField()
    finished = MomentField(null=True)

    class Meta:
        indexes = [models.Index(fields=["by", "at"], condition=Q(finished__isnull=True), name="bulk_unfinished")]

    def __str__(self) -> str:
        return f"{self.verb} {self.done} of {len(self.runs)} by {self.by_id}"


class Signal(models.Model):
    """A message to a run, stored until a step receives it. ``taken``: the request that it answered.

    ``others``: whose act it is besides ``by``, a JSON list of user names; empty without any.
    """

    id = CharField(max_length=36, primary_key=True)
    run = models.ForeignKey("checkpoints.Run", on_delete=models.CASCADE, related_name="signals")
    name = CharField(max_length=200)
    value = EncryptedJsonField("signal", ("id",), null=True)
    by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    at = MomentField()
    taken = CharField(max_length=36, null=True)
    others = models.TextField(blank=True, db_default="", default="")

    class Meta:
        indexes = [models.Index(fields=["run", "name", "id"], condition=Q(taken__isnull=True), name="signal_untaken")]

    def __str__(self) -> str:
        return f"{self.name} to {self.run_id}"


class IdempotencyKey(models.Model):
    """A person's command and its result: the same command with the same key is not done again."""

    person = CharField(max_length=150)
    key = CharField(max_length=64)
    """SHA-256 of the given key."""
    verb = CharField(max_length=40)
    digest = CharField(max_length=64)
    """SHA-256 of the command: the same key with another one is a conflict."""
    result = JsonField(default=dict)
    at = MomentField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["person", "key"], name="one_command_per_key")]

    def __str__(self) -> str:
        return f"{self.verb} by {self.person}"


class Schedule(models.Model):
    """When runs of a workflow start automatically: cron, in a time zone. ``next_at`` null: paused or over.

    ``missed``: what happens with times that passed while nothing ran: ``skip``, ``once`` or ``all``. ``overlap``:
    ``allow``, or ``skip``, which skips a time (``passed_at``) while its last run is open. Runs are started on behalf of
    ``owner``, who must still be allowed to. ``problem`` says what went wrong last.
    """

    id = CharField(max_length=36, primary_key=True)
    workflow = CharField(max_length=200, db_index=True)
    name = CharField(max_length=100)
    cron = CharField(max_length=200)
    zone = CharField(max_length=64, default="UTC")
    message = EncryptedJsonField("schedule", ("id",), null=True)
    missed = CharField(max_length=10, default="once")
    overlap = CharField(max_length=10, default="allow", db_default="allow")
    paused = models.BooleanField(default=False)
    problem = CharField(max_length=500, blank=True)
    next_at = MomentField(null=True)
    last_at = MomentField(null=True)
    last_run = CharField(max_length=ID, null=True)
    passed_at = MomentField(null=True)
    owner = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    authors = JsonField(default=list)
    """User names of everyone who created or changed it: they count as requesters of its runs, like the owner."""
    created = MomentField()
    updated = MomentField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workflow", "name"], name="one_schedule_per_name")]
        indexes = [models.Index(fields=["next_at"], condition=Q(next_at__isnull=False), name="schedule_next")]

    def __str__(self) -> str:
        return f"{self.name} of {self.workflow}"


class Tally(models.Model):
    """How often something was measured within an hour, by size: a histogram that can be added up over hours.

    ``bucket``: the values in one differ by less than a tenth. ``total``: their sum, in the measure's unit.
    """

    hour = MomentField()
    measure = CharField(max_length=40)
    workflow = CharField(max_length=200)
    step = CharField(max_length=200, blank=True)
    label = CharField(max_length=200, blank=True)
    bucket = models.IntegerField(default=0)
    count = models.BigIntegerField(default=0)
    total = models.FloatField(default=0.0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["measure", "hour", "workflow", "step", "label", "bucket"], name="one_tally_per_bucket"
            )
        ]
        indexes = [models.Index(fields=["hour"], name="tally_by_hour")]

    def __str__(self) -> str:
        return f"{self.measure} {self.workflow} {self.hour:%Y-%m-%d %H}"


class TallyRollup(models.Model):
    """What the tallies of a span of hours add up to, of one workflow, or of all of them if ``workflow`` is empty.

    ``data``: see ``wfdash.queries.statistics.durations.packed``.
    """

    span = models.SmallIntegerField()
    """Hours."""
    hour = models.IntegerField()
    """The first one: how many there were before it since 1970."""
    workflow = CharField(max_length=200, blank=True)
    data = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["span", "hour", "workflow"], name="one_rollup_per_span")]

    def __str__(self) -> str:
        return f"{self.span} h from {self.hour} of {self.workflow}"


class DecisionRollup(models.Model):
    """How the requests of a workflow were decided on a day (UTC), or those of all of them if ``workflow`` is empty.

    ``data``: see ``wfdash.queries.statistics.gates``. It agrees with the requests as long as ``count`` of them
    were answered on that day.
    """

    since = MomentField()
    until = MomentField()
    workflow = CharField(max_length=200, blank=True)
    count = models.BigIntegerField(default=0)
    """Answered requests of that day, of any workflow."""
    reversed = models.BigIntegerField(default=0)
    """How many of its decisions, of any workflow, were reversed by the time it was made."""
    groups = CharField(max_length=64)
    """The names of groups by which it was made, as a hash."""
    data = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["since", "workflow"], name="one_decision_rollup_per_day")]

    def __str__(self) -> str:
        return f"decisions of {self.workflow} on {self.since:%Y-%m-%d}"


class TallyMark(models.Model):
    """The id up to which every event was counted, or is in what is made of the counts."""

    event = models.BigIntegerField(default=0)
    at = MomentField(null=True)
    """When it moved; of the roll-ups: from when on they have everything that was counted."""

    def __str__(self) -> str:
        return f"event {self.event}"


class WorkflowVersion(models.Model):
    """A graph that runs were started under, stored so that old runs can still be drawn."""

    workflow = CharField(max_length=200)
    version = CharField(max_length=64)
    description = JsonField()
    created = MomentField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workflow", "version"], name="one_row_per_workflow_version")]

    def __str__(self) -> str:
        return f"{self.workflow} {self.version[:8]}"


class PublishedWorkflow(models.Model):
    """A workflow as a worker describes it, for servers that have not loaded its code."""

    workflow = CharField(max_length=200, primary_key=True)
    version = CharField(max_length=64)
    hash = CharField(max_length=64)
    """Of ``document``, which is written when it changes."""
    document = JsonField()
    seen = MomentField()
    """When a worker last had it. One that no worker had for a day goes once there are no runs of it."""

    def __str__(self) -> str:
        return f"{self.workflow} {self.version[:8]}"


class Consultation(models.Model):
    """What a server without a workflow's code asks a worker that has it, for the seconds until it has the reply."""

    id = CharField(max_length=36, primary_key=True)
    workflow = CharField(max_length=200)
    version = CharField(max_length=64)
    ability = CharField(max_length=40)
    """Of the workflow's engine: one of ``wfdash.engines.published``."""
    given = EncryptedJsonField("consultation", ("id",))
    created = MomentField()
    worker = CharField(max_length=200, blank=True, default="")
    """The one that replies, empty until one does."""
    reply = EncryptedJsonField("consultation", ("id",), null=True)

    def __str__(self) -> str:
        return f"{self.ability} of {self.workflow}"


class WorkerBeat(models.Model):
    """A worker's heartbeat row, renewed every few seconds. ``late``: seconds its timers were late by, at most."""

    id = CharField(max_length=200, primary_key=True)
    started = MomentField()
    seen = MomentField()
    runs = models.IntegerField(default=0)
    late = models.FloatField(default=0.0)
    serves = JsonField(null=True)
    """Workflow -> version of what it has loaded and claims; None: unknown, its code is older."""

    def __str__(self) -> str:
        return self.id


class Installation(models.Model):
    """What all processes on one database have in common, in one row.

    ``key``: a slow, salted hash of the secret key, empty on SQLite. ``content_keys``: the ids of the keys that content
    is encrypted with, ``plain`` for content that is not; None until a process has looked.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    key = CharField(max_length=200, default="")
    content_keys = JsonField(null=True)

    def __str__(self) -> str:
        return "installation"


class Leader(models.Model):
    """The worker that looks for what is due on behalf of all with the same code, ``until`` then unless it renews that.

    ``code``: a hash of the workflows and versions that they have loaded.
    """

    code = CharField(max_length=64, primary_key=True)
    worker = CharField(max_length=200)
    until = MomentField()

    def __str__(self) -> str:
        return f"{self.worker} for {self.code}"


class KnownError(models.Model):
    """A class of error with which runs of a workflow failed: since when, in which version, and who looks after it.

    ``again_at``: when it came back after a quiet time. It is muted from ``muted_at`` on, until it happens at or after
    ``muted_until``, or in another version than ``muted_version``.
    """

    workflow = CharField(max_length=200)
    error = CharField(max_length=200)
    """As filters have it; empty where the class is not known."""
    first_at = MomentField(null=True)
    first_version = CharField(max_length=200, blank=True)
    last_at = MomentField()
    last_version = CharField(max_length=200, blank=True)
    again_at = MomentField(null=True)
    assignee = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    muted_at = MomentField(null=True)
    muted_until = MomentField(null=True)
    muted_version = CharField(max_length=200, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workflow", "error"], name="one_row_per_known_error")]
        indexes = [models.Index(fields=["-last_at"], name="known_error_by_time")]

    def __str__(self) -> str:
        return f"{self.error} in {self.workflow}"

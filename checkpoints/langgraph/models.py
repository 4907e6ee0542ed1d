"""The tables of LangGraph's threads. What is big lies in ``checkpoints.models.Chunk``, under the thread's family."""

from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q

from checkpoints.langgraph.values import RUN_KEY
from checkpoints.limits import ID
from checkpoints.models.fields import CharField, EncryptedJsonField, EncryptedTextField, TextField


class KeyText(models.TextField):  # type: ignore[type-arg]
    """Text that is compared and sorted by code points, as LangGraph compares ids, whatever the database's language."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, str | None]:
        """Return the column's parameters; SQLite compares so by itself."""
        found = super().db_parameters(connection)
        return {**found, "collation": "C"} if connection.vendor == "postgresql" else found


class SearchableJson(EncryptedJsonField):
    """A document that PostgreSQL can search by an index: ``jsonb``."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        """Return the column type."""
        return "jsonb" if connection.vendor == "postgresql" else super().db_type(connection)

    def deconstruct(self) -> tuple[str, str, list[object], dict[str, object]]:
        """Return those of a plain column of this type."""
        name, _, args, options = super().deconstruct()
        return str(name), "checkpoints.langgraph.models.SearchableJson", args, options


class LangGraphThread(models.Model):
    """A thread. ``key`` is the digest of its name, of any length; copies have one ``family`` and share chunks."""

    key = CharField(max_length=40, unique=True)
    name = TextField()
    family = CharField(max_length=ID)

    class Meta:
        db_table = "checkpoints_langgraph_thread"
        indexes = [models.Index(fields=["family"], name="thread_by_family")]

    def __str__(self) -> str:
        return self.name


class ThreadCheckpoint(models.Model):
    """A checkpoint of a thread, in a namespace. ``turn`` is another one whenever the row is written.

    ``source``, ``step`` and ``run_key`` repeat what the metadata says, for filters.
    """

    thread = models.ForeignKey(LangGraphThread, on_delete=models.CASCADE, db_constraint=False, db_index=False)
    ns = KeyText()
    checkpoint = KeyText()
    parent = TextField(null=True)
    source = TextField(null=True)
    step = models.BigIntegerField(null=True)
    run_key = CharField(max_length=RUN_KEY, null=True)
    size = models.BigIntegerField()
    turn = CharField(max_length=16)
    metadata = SearchableJson("langgraph.checkpoint", ("thread__family", "ns", "checkpoint"))
    body = EncryptedTextField("langgraph.checkpoint", ("thread__family", "ns", "checkpoint"))

    class Meta:
        db_table = "checkpoints_langgraph_checkpoint"
        constraints = [
            models.UniqueConstraint(fields=["thread", "ns", "checkpoint"], name="one_row_per_thread_checkpoint")
        ]
        indexes = [models.Index(fields=["run_key"], condition=Q(run_key__isnull=False), name="thread_run")]

    def __str__(self) -> str:
        return f"{self.checkpoint}"


class ThreadWrite(models.Model):
    """What a task wrote to a channel after a checkpoint, which may itself be stored later."""

    thread = models.ForeignKey(LangGraphThread, on_delete=models.CASCADE, db_constraint=False, db_index=False)
    ns = KeyText()
    checkpoint = KeyText()
    task = KeyText()
    idx = models.IntegerField()
    path = TextField()
    channel = TextField()
    turn = CharField(max_length=16)
    body = EncryptedTextField("langgraph.write", ("thread__family", "ns", "checkpoint", "task", "idx"))

    class Meta:
        db_table = "checkpoints_langgraph_write"
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "ns", "checkpoint", "task", "idx"], name="one_row_per_thread_write"
            )
        ]

    def __str__(self) -> str:
        return f"{self.channel} of {self.task}"

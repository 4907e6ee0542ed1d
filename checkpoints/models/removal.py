"""Runs that look-ups find, and what is left of a run while it is removed in parts."""

from __future__ import annotations

from typing import TypeVar

from django.db import models
from django.db.models import QuerySet

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

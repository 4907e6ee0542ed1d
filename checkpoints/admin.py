"""The tables in Django's admin, read-only but for grants: runs are changed by actions, never by editing rows."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.http import HttpRequest

from checkpoints import models


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """A read-only table, without the count of all rows in the page title."""

    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: rows are not added by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: rows are not edited by hand."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: rows are not deleted by hand."""
        return False


@admin.register(models.Run)
class RunAdmin(ReadOnly):
    """Runs, newest first."""

    list_display = ["id", "workflow", "phase", "seq", "n", "epoch", "created", "updated"]
    list_filter = ["phase"]
    search_fields = ["id", "workflow", "title"]
    ordering = ["-created"]
    # A run's content is shown on its own page, where secrets are masked and rights are checked.
    exclude = ["input", "output", "error"]


@admin.register(models.Checkpoint)
class CheckpointAdmin(ReadOnly):
    """Checkpoints without their content."""

    list_display = ["id", "run_id", "n", "step", "reason", "size", "intact", "created"]
    search_fields = ["=run__id", "=id"]
    ordering = ["-id"]
    exclude = ["body"]


@admin.register(models.HumanRequest)
class HumanRequestAdmin(ReadOnly):
    """Requests to people, without their content."""

    exclude = ["card", "answer_schema", "suggestion", "policy"]

    list_display = ["id", "workflow", "step", "kind", "created", "answered", "closed", "closed_as"]
    search_fields = ["=run__id", "=id"]
    ordering = ["-id"]


@admin.register(models.Event)
class EventAdmin(ReadOnly):
    """Events, without their data."""

    exclude = ["data"]

    list_display = ["run_id", "seq", "kind", "step", "at"]
    search_fields = ["=run__id"]
    ordering = ["-id"]


@admin.register(models.Effect)
class EffectAdmin(ReadOnly):
    """Recorded calls, without their results."""

    exclude = ["result"]

    list_display = ["run_id", "key", "name", "once", "state", "at"]
    search_fields = ["=run__id"]
    ordering = ["-id"]


@admin.register(models.Claim)
class ClaimAdmin(ReadOnly):
    """Claims: which worker runs which run."""

    list_display = ["run_id", "worker", "epoch", "expires"]


@admin.register(models.Grant)
class GrantAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Roles of people and groups per workflow."""

    list_display = ["user", "group", "workflow", "role"]
    list_filter = ["role"]
    raw_id_fields = ["user", "group"]


@admin.register(models.SecondFactor)
class SecondFactorAdmin(ReadOnly):
    """Second factors of people. Deleting one resets it for a person who lost their device."""

    list_display = ["user", "created", "confirmed"]
    search_fields = [f"=user__{get_user_model().USERNAME_FIELD}"]
    exclude = ["secret"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether this person may reset it."""
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

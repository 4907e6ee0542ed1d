"""The tables in Django's admin, to look at. Runs are changed by verbs, never by editing rows; grants are editable."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from checkpoints import models


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """Look, do not touch. Counting millions of rows for a page title is left out."""

    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds rows by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits rows by hand."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody removes rows by hand."""
        return False


@admin.register(models.Run)
class RunAdmin(ReadOnly):
    """Runs, newest first."""

    list_display = ["id", "workflow", "phase", "seq", "n", "epoch", "created", "updated"]
    list_filter = ["phase"]
    search_fields = ["id", "workflow", "title"]
    ordering = ["-created"]


@admin.register(models.Checkpoint)
class CheckpointAdmin(ReadOnly):
    """Checkpoints without their content."""

    list_display = ["id", "run_id", "n", "step", "reason", "size", "clean", "created"]
    search_fields = ["=run__id", "=id"]
    ordering = ["-id"]
    exclude = ["body"]


@admin.register(models.HumanRequest)
class HumanRequestAdmin(ReadOnly):
    """Requests to people."""

    list_display = ["id", "workflow", "step", "kind", "created", "answered", "closed", "closed_as"]
    search_fields = ["=run__id", "=id"]
    ordering = ["-id"]


@admin.register(models.Event)
class EventAdmin(ReadOnly):
    """Events."""

    list_display = ["run_id", "seq", "kind", "step", "at"]
    search_fields = ["=run__id"]
    ordering = ["-id"]


@admin.register(models.Effect)
class EffectAdmin(ReadOnly):
    """Recorded calls."""

    list_display = ["run_id", "key", "name", "once", "state", "at"]
    search_fields = ["=run__id"]
    ordering = ["-id"]


@admin.register(models.Claim)
class ClaimAdmin(ReadOnly):
    """Who drives what."""

    list_display = ["run_id", "worker", "epoch", "expires"]


@admin.register(models.Grant)
class GrantAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Roles of people and groups per workflow."""

    list_display = ["user", "group", "workflow", "role"]
    list_filter = ["role"]
    autocomplete_fields = ["user", "group"]

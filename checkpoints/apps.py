"""The Django app that keeps runs."""

from __future__ import annotations

from django.apps import AppConfig


class CheckpointsConfig(AppConfig):
    """Tables for runs, checkpoints, requests, answers, events and claims."""

    name = "checkpoints"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Checkpoints"

    def ready(self) -> None:
        """Register the system checks and make ORM writes wait their turn on SQLite."""
        from checkpoints import checks, turns  # noqa: F401

        turns.install()

"""The Django app that stores runs."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import pre_migrate


class CheckpointsConfig(AppConfig):
    """Tables for runs, checkpoints, requests, answers, events and claims."""

    name = "checkpoints"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Checkpoints"

    def ready(self) -> None:
        """Register the checks of databases and parameters, and make ORM writes take the write lock on SQLite."""
        from checkpoints.database import direct, schema

        pre_migrate.connect(schema.refuse_gaps, sender=self)
        direct.install_guards()

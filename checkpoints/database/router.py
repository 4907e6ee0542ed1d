"""Sends what wfdash reads and writes to its database, where that is not a project's default one."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model

from checkpoints.database.alias import alias


class Router:
    """A router for ``DATABASE_ROUTERS`` beside ``WFDASH_DATABASE_ALIAS``.

    People live where the runs do: rights are found by joins, and a person's rows are deleted with the person. So the
    user model, groups and permissions go there too, and nothing else does. Derive a class with more ``apps`` if others
    have foreign keys to people.
    """

    apps = frozenset({"admin", "auth", "checkpoints", "checkpoints_langgraph", "contenttypes"})

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        """Return wfdash's database for the tables that are there, None for others."""
        owner: Any = model._meta.auto_created or model
        return alias() if self._is_there(owner._meta.app_label, owner._meta.model_name) else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        """Return whether a table is made in a database; None leaves it to other routers."""
        if alias() == DEFAULT_DB_ALIAS:
            return None
        if self._is_there(app_label, model_name):
            return db == alias()
        return False if db == alias() else None

    def _is_there(self, app: str, model: str | None) -> bool:
        return app in self.apps or f"{app}.{model}".lower() == settings.AUTH_USER_MODEL.lower()

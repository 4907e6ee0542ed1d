"""The dashboard as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class WfdashConfig(AppConfig):
    """Doors, desk and runner."""

    name = "wfdash"
    verbose_name = "wfdash"

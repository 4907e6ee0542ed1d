"""The dashboard as a Django app."""

from __future__ import annotations

from django.apps import AppConfig

from wfdash.telemetry.log_filter import MaskLinks
from wfdash.telemetry.log_format import guard_last_resort


class WfdashConfig(AppConfig):
    """Doors, desk and runner."""

    name = "wfdash"
    verbose_name = "wfdash"

    def ready(self) -> None:
        """Record changes of accounts and tell open sockets of them, once there are models; keep the log readable."""
        from wfdash.actions.audit import account_events
        from wfdash.live import rights_changes

        guard_last_resort(MaskLinks())
        account_events.connect()
        rights_changes.connect()

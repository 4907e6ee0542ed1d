"""The dashboard as a Django app."""

from __future__ import annotations

from django.apps import AppConfig

from wfdash.telemetry.log_filter import MaskLinks
from wfdash.telemetry.log_format import guard_last_resort


class WfdashConfig(AppConfig):
    """The dashboard's app: pages, actions and worker."""

    name = "wfdash"
    verbose_name = "wfdash"

    def ready(self) -> None:
        """Connect the signal handlers for the audit and for open sockets, once there are models, and set up the log."""
        from wfdash.actions.audit import account_events
        from wfdash.live import rights_changes

        guard_last_resort(MaskLinks())
        account_events.connect()
        rights_changes.connect()

"""The dashboard as a Django app."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.conf import settings

from wfdash.installation.defaults import add_defaults
from wfdash.telemetry.log_filter import MaskLinks
from wfdash.telemetry.log_format import guard_last_resort


class WfdashConfig(AppConfig):
    """The dashboard's app: pages, actions and worker."""

    name = "wfdash"
    verbose_name = "wfdash"

    def ready(self) -> None:
        """Set what the project's settings leave out, set up the log, and connect the signal handlers."""
        add_defaults(settings, apps=[app.name for app in apps.get_app_configs()])
        from wfdash.actions.audit import account_events
        from wfdash.live import rights_changes

        guard_last_resort(MaskLinks())
        account_events.connect()
        rights_changes.connect()

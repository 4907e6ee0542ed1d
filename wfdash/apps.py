"""The dashboard as a Django app."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Warning, register  # noqa: A004

from wfdash.installation.defaults import add_defaults, guard_last_resort
from wfdash.telemetry.error_hook import install_hook


class WfdashConfig(AppConfig):
    """The dashboard's app: pages, actions and worker."""

    name = "wfdash"
    verbose_name = "wfdash"

    def ready(self) -> None:
        """Set what the project's settings leave out, register checks, set up log and keys, connect signal handlers."""
        from wfdash.web.pages.site import embedding

        embedding.refuse_incomplete()
        add_defaults(settings, apps=[app.name for app in apps.get_app_configs()])
        embedding.register_checks()
        from wfdash.actions import audit
        from wfdash.engines.agent_framework.encoding import signing
        from wfdash.web.live import hub

        guard_last_resort(settings.WFDASH_LOG)
        install_hook(settings.WFDASH_ON_ERROR)
        keys = [str(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
        signing.use(keys, unsigned=settings.WFDASH_UNSIGNED_PICKLES)
        audit.connect()
        hub.connect()
        register(check_provider)


def check_provider(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Return a warning for each reason why people cannot sign in at the OpenID Connect provider of the settings."""
    return [
        Warning(f"Sign-in with OpenID Connect is off: {words}.", hint="See docs/sign-in.md.", id="wfdash.W001")
        for words in settings.WFDASH_OIDC_PROBLEMS
    ]

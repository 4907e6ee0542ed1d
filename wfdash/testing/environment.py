"""Django for the bench: that of the project under test, or one of its own where there is none."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib import import_module
from typing import Any
from unittest import mock

NEEDED = ("checkpoints", "wfdash")


def set_up_django() -> None:
    """Set Django up, once per process. ``ImproperlyConfigured`` for a project without wfdash."""
    import django
    from django.apps import apps
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    if not settings.configured and "DJANGO_SETTINGS_MODULE" not in os.environ:
        settings.configure(**_own_settings())
    if not apps.ready:
        django.setup()
    if missing := [name for name in NEEDED if not apps.is_installed(name)]:
        raise ImproperlyConfigured(
            f"wfdash.testing needs {' and '.join(map(repr, missing))} in the INSTALLED_APPS of the settings that tests"
            " use; without DJANGO_SETTINGS_MODULE it brings settings of its own"
        )


def _own_settings() -> dict[str, Any]:
    """Return the dashboard's settings, as if no environment variable said anything else."""
    folder = tempfile.mkdtemp(prefix="wfdash-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WFDASH_")}
    with mock.patch.dict(os.environ, plain | {"WFDASH_DATA": folder}, clear=True):
        module = import_module("wfdash.settings")
    kept = {name: value for name, value in vars(module).items() if name.isupper()}
    # Daphne would install an event loop for Twisted; logging is pytest's.
    apps = [name for name in kept["INSTALLED_APPS"] if name != "daphne"]
    return kept | {"INSTALLED_APPS": apps, "LOGGING_CONFIG": None, "WFDASH_EMBED": False}

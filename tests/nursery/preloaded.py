"""What ``tests.nursery`` imports once: the libraries and, with Django set up for no one, wfdash itself.

Nothing here starts a thread, opens anything or keeps settings: who is forked sets Django up for settings of its own.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from django.apps import AppConfig, apps
from django.conf import empty, settings
from django.db import connections

LIBRARIES = """
django.contrib.admin.options django.contrib.auth.hashers django.contrib.messages.api django.contrib.staticfiles.finders
django.core.cache.backends.locmem django.core.handlers.asgi django.core.mail django.core.management
django.core.management.commands.migrate django.db.backends.sqlite3.base django.db.migrations.executor django.db.models
django.forms django.template.defaultfilters django.template.loader django.template.loader_tags
django.test.client django.urls django.views.decorators.cache
twisted.internet.asyncioreactor twisted.internet.tcp twisted.protocols.tls twisted.web.http
autobahn.websocket.protocol service_identity whitenoise.middleware
argon2 cronsim cryptography.hazmat.primitives.ciphers.aead heroicons jsonschema markdown_it nh3 psycopg
prometheus_client pydantic.json_schema pygments.formatters pygments.lexers pyotp referencing qrcode.image.svg uuid_utils
checkpoints.manager checkpoints.sql.sqlite
wfdash.client wfdash.domain.cron wfdash.records wfdash.values.schemas wfdash.workflow
"""
FRAMEWORKS = "openai mcp langsmith"
"""What takes the frameworks longest to import, where it is installed; what begins anything is left to who needs it."""
OURS = "wfdash.actions wfdash.engines.catalog wfdash.web.http wfdash.web.live.sockets wfdash.urls wfdash.worker.worker"
"""What needs models and reads settings only when it is called. No ``admin``: it reads them at once."""

for library in [*LIBRARIES.split(), *filter(find_spec, FRAMEWORKS.split())]:
    importlib.import_module(library)
for name in [name for name in os.environ if name.startswith(("WFDASH_", "DJANGO_"))]:
    del os.environ[name]
with TemporaryDirectory() as folder:
    os.environ |= {"DJANGO_SETTINGS_MODULE": "wfdash.settings", "WFDASH_DATA": folder}
    # As django.setup() does, but for what apps do once they are ready, and for daphne, which opens an event loop.
    for config in (AppConfig.create(name) for name in settings.INSTALLED_APPS if name != "daphne"):
        config.apps, apps.app_configs[config.label] = apps, config
    apps.apps_ready = True
    for config in apps.app_configs.values():
        config.import_models()
    apps.clear_cache()
    apps.models_ready = True
    for module in OURS.split():
        importlib.import_module(module)
# Django has no word for taking settings back: this is what it keeps of them.
apps.app_configs.clear()
apps.apps_ready = apps.models_ready = False
apps.clear_cache()
settings._wrapped = empty
del sys.modules["wfdash.settings"]
for alias in connections:
    with contextlib.suppress(AttributeError):
        del connections[alias]
del connections.settings
connections._settings = None
assert "twisted.internet.reactor" not in sys.modules
gc.collect()
gc.freeze()

"""The ASGI application: pages over HTTP, live streams over websockets. Needs no lifespan from its server."""

from __future__ import annotations

import os

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from django.apps import apps

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wfdash.settings")
# Only once: a second set-up would configure logging again while the worker's thread adds its own handler.
if not apps.ready:
    django.setup(set_prefix=False)

# Nothing may import models before the apps are loaded.
from wfdash.http import PagesHandler
from wfdash.live.hub import count_sockets, use_renderer
from wfdash.live.routing import websocket_urlpatterns
from wfdash.pages.site.prometheus import use_sockets
from wfdash.pages.ui.fragments import event_row

use_renderer(event_row)
use_sockets(count_sockets)
application = ProtocolTypeRouter(  # type: ignore[no-untyped-call]
    {"http": PagesHandler(), "websocket": URLRouter(websocket_urlpatterns)}  # type: ignore[no-untyped-call]
)

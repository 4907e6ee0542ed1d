"""The ASGI application: pages over HTTP, live streams over websockets. Needs no lifespan from its server."""

from __future__ import annotations

import os

import django
from channels.routing import ProtocolTypeRouter, URLRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wfdash.settings")
django.setup(set_prefix=False)

# Only now that the apps are loaded may anything import models.
from wfdash.http import PagesHandler  # noqa: E402
from wfdash.live.hub import count_sockets, use_renderer  # noqa: E402
from wfdash.live.routing import websocket_urlpatterns  # noqa: E402
from wfdash.pages.figures import use_sockets  # noqa: E402
from wfdash.pages.fragments import event_row  # noqa: E402

use_renderer(event_row)
use_sockets(count_sockets)
application = ProtocolTypeRouter(  # type: ignore[no-untyped-call]
    {"http": PagesHandler(), "websocket": URLRouter(websocket_urlpatterns)}  # type: ignore[no-untyped-call]
)

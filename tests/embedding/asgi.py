"""HTTP by Django's own handler, sockets of the dashboard below its prefix."""

from __future__ import annotations

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.embedding.settings")
pages = get_asgi_application()

from wfdash.asgi import websocket_urlpatterns  # noqa: E402, after the apps are loaded

sockets = URLRouter([path("people/", URLRouter(websocket_urlpatterns))])
application = ProtocolTypeRouter({"http": pages, "websocket": sockets})

"""The ASGI application: pages over HTTP, live streams over websockets; and the one of a project with both in it.

Neither needs a lifespan from its server.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import Any

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wfdash.settings")
# Only once: a second set-up would configure logging again while the worker's thread adds its own handler.
if not apps.ready:
    django.setup(set_prefix=False)

# Nothing may import models before the apps are loaded.
from checkpoints.database.installation_key import refuse_other_keys
from wfdash.pubsub.process import signals
from wfdash.web.http import PagesHandler
from wfdash.web.live.hub import count_sockets, use_renderer
from wfdash.web.live.sockets import refuse, websocket_urlpatterns
from wfdash.web.pages.site.health import use_sockets
from wfdash.web.pages.ui.fragments import event_row
from wfdash.worker.process import follow_daphne, start_worker, stop_worker, try_start_worker

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

METADATA = (".well-known/oauth-protected-resource", ".well-known/oauth-protected-resource/mcp")
"""Where clients ask who gives access tokens for the door for agents."""

log = logging.getLogger(__name__)
use_renderer(event_row)
use_sockets(count_sockets)
routes = ProtocolTypeRouter(  # type: ignore[no-untyped-call]
    {"http": PagesHandler(), "websocket": URLRouter(websocket_urlpatterns)}  # type: ignore[no-untyped-call]
)


async def application(scope: Message, receive: Receive, send: Send) -> None:
    """Serve one connection of the dashboard; with the first one, this process hears of others' changes."""
    signals.start()
    path = scope.get("path", "").removeprefix(reverse("wfdash:inbox")).removesuffix("/")
    if scope["type"] == "http" and path in ("mcp", *METADATA):
        from wfdash.web.mcp import serve_mcp, tell_of_mcp  # The client that it needs would cost every start.

        await (serve_mcp(routes, scope, receive, send) if path == "mcp" else tell_of_mcp(send))
    else:
        await routes(scope, receive, send)


def with_dashboard(pages: Application, *, sockets: Application | None = None) -> ProjectApplication:
    """Return the project's ASGI application with the dashboard in it, where its addresses are included.

    ``pages`` is what ``get_asgi_application()`` returns and ``sockets`` the project's own websockets, if it has some:
    they answer whatever is not below the dashboard's prefix. The worker starts and stops with the server, unless
    ``WFDASH_EMBED`` is false. Import this where ``DJANGO_SETTINGS_MODULE`` is set; Django is set up then.
    """
    follow_daphne()
    return ProjectApplication(pages, sockets)


def lacks_keys() -> bool:
    """Return whether content is encrypted with keys that this process lacks, and log which."""
    try:
        refuse_other_keys()
    except ImproperlyConfigured as error:
        log.critical("%s", error)
        return True
    return False


class ProjectApplication:
    """An ASGI application: HTTP, websockets and lifespan."""

    def __init__(self, pages: Application, sockets: Application | None) -> None:
        self._pages, self._sockets = pages, sockets
        self._asked = False
        self._lacking: asyncio.Future[bool] | None = None

    @cached_property
    def prefix(self) -> str:
        """The path below which the dashboard is, with a slash at both ends."""
        return reverse("wfdash:inbox")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        self._start_once()
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path.startswith(self.prefix) and await self._lacks_keys():
            if scope["type"] == "http":
                headers, body = [(b"content-type", b"text/plain")], b"Misconfigured: see the log of the server"
                await send({"type": "http.response.start", "status": 503, "headers": headers})
                await send({"type": "http.response.body", "body": body})
            else:
                await refuse(scope, receive, send)
        elif path.startswith(self.prefix):
            rest = {"path_remaining": path[len(self.prefix) :]} if scope["type"] == "websocket" else {}
            await application({**scope, **rest}, receive, send)
        elif scope["type"] == "http":
            await self._pages(scope, receive, send)
        elif self._sockets is not None:
            await self._sockets(scope, receive, send)
        else:
            await refuse(scope, receive, send)

    async def _lacks_keys(self) -> bool:
        """Return whether content is encrypted with keys that this process lacks; asked once, and logged."""
        if self._lacking is None:
            self._lacking = asyncio.ensure_future(asyncio.to_thread(lacks_keys))
        return await asyncio.shield(self._lacking)

    def _start_once(self) -> None:
        """Start the worker where the server has said nothing of its own start."""
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().run_in_executor(None, try_start_worker)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Follow the server's start and stop."""
        self._asked = True
        while (await receive())["type"] != "lifespan.shutdown":
            try:
                await asyncio.to_thread(start_worker)
            except (OSError, ValueError, ImproperlyConfigured) as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        await asyncio.to_thread(stop_worker)
        await send({"type": "lifespan.shutdown.complete"})

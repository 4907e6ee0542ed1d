"""The URLs of the sockets. They authorise themselves: no session or origin middleware is needed around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from django.urls import URLPattern, path, re_path

from wfdash.live.hub import Hub, get_hub
from wfdash.live.lists_socket import ListsSocket
from wfdash.live.run_socket import RunSocket
from wfdash.live.socket import Receive, Scope, Send, Socket

App = Callable[[Scope, Receive, Send], Awaitable[None]]


def socket_app(kind: type[Socket], hub: Callable[[], Hub]) -> App:
    """Return the ASGI application that serves each connection with a socket of that kind."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await kind(hub(), scope, receive, send).run()

    return serve


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Reject a handshake for a path that does not exist."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


def urlpatterns(hub: Callable[[], Hub] = get_hub) -> list[URLPattern]:
    """Return the URLs of the sockets, served by that hub. Tests pass their own."""
    runs: Any = socket_app(RunSocket, hub)
    lists: Any = socket_app(ListsSocket, hub)
    other: Any = refuse
    return [path("live/runs/<str:run_id>/", runs), path("live/lists/", lists), re_path(r"", other)]


websocket_urlpatterns = urlpatterns()

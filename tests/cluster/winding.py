"""wfdash's HTTP server with an application that takes its time: ``python -m tests.cluster.winding PORT DRAIN``.

``GET /slow`` answers after a second, ``GET /never`` never. Sockets are accepted and kept; ``/late`` is accepted once
the server stops, ``/last`` is sent ``MUCH`` and closed with 1000, ``/broken`` closed with 1011. Prints ``ready``, and a
line for each request and socket that has begun.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

MUCH, PIECE = 20, 50_000
"""How many messages, of so many characters."""


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await serve_socket(scope["path"], receive, send)
        return
    print("request", flush=True)
    await asyncio.sleep(1.0 if scope["path"] == "/slow" else 600.0)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


async def serve_socket(path: str, receive: Any, send: Any) -> None:
    await receive()
    if path == "/late":
        from wfdash.installation.stopping import stopping

        print("late", flush=True)
        await stopping.wait()
    await send({"type": "websocket.accept"})
    print("socket", flush=True)
    if path == "/last":
        for _ in range(MUCH):
            await send({"type": "websocket.send", "text": "x" * PIECE})
        await send({"type": "websocket.close", "code": 1000})
    elif path == "/broken":
        await send({"type": "websocket.close", "code": 1011})
    await receive()


def main(port: str, drain: str) -> None:
    """Serve until SIGTERM."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "wfdash.settings"
    import django

    django.setup()
    from wfdash.cli import server

    serving = server.Server(  # type: ignore[no-untyped-call]
        application=application,
        endpoints=[f"tcp:port={port}:interface=127.0.0.1"],
        ready_callable=lambda: print("ready", flush=True),
    )
    serving.drain = float(drain)
    server.reactor.callWhenRunning(server.Signals(serving, None).install)
    serving.run()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(*sys.argv[1:])

"""wfdash's HTTP server with an application that takes its time: ``python -m tests.cluster.winding PORT DRAIN``.

``GET /slow`` answers after a second, ``GET /never`` never; sockets are accepted and kept. Prints ``ready``, and a line
for each request and socket that has begun.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Serve a connection."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        print("socket", flush=True)
        await receive()
        return
    print("request", flush=True)
    await asyncio.sleep(1.0 if scope["path"] == "/slow" else 600.0)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def main(port: str, drain: str) -> None:
    """Serve until SIGTERM."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "wfdash.settings"
    import django

    django.setup()
    from wfdash import server

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

"""One process that serves pages and sockets and runs workflows: daphne in the main thread, the worker beside it.

daphne has no lifespan, so start and stop are handled here: the worker starts before the server listens, and the reactor
delays its shutdown until the worker has released every run.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# Importing this installs Twisted's asyncio reactor; nothing may use the reactor before.
from daphne.server import Server as DaphneServer  # isort: skip
from daphne.endpoints import build_endpoint_description_strings
from django.conf import settings
from twisted.internet import reactor as _reactor
from twisted.internet import tcp

from wfdash.body_limit import FlowControl, bound_requests
from wfdash.worker.embedded import EmbeddedWorker
from wfdash.worker.in_process import stopping
from wfdash.worker.shutdown import SERVER_DRAIN_SECONDS, STOP_SECONDS, drain_seconds, stop_seconds

reactor: Any = _reactor
log = logging.getLogger(__name__)

SWITCH_SECONDS = 0.0005
"""How long a busy thread keeps the GIL. An answer passes through several threads on its way to the next step; at
Python's default of 5 ms a page being rendered would delay it at each of them.
"""

BACKLOG = 1024
"""Connections that may wait to be accepted. When all browsers reconnect at once after a restart, those beyond it are
dropped silently, and retry after one second, then three.
"""

ACCEPTS = 8
"""Connections accepted in one go. Twisted accepts twenty more each time, up to all there are: a handshake costs a
millisecond or more, and connected clients would wait for hundreds of them.
"""


class Server(DaphneServer):
    """A daphne whose ``send`` waits while the client does not take what was sent: daphne's own buffers all of it."""

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Send a message, and wait for the client where there is more to come."""
        await super().handle_reply(protocol, message)  # type: ignore[no-untyped-call]
        flow: FlowControl | None = getattr(protocol, "flow", None)
        if flow is not None and message.get("more_body", False):
            await flow.wait()


def serve(*, host: str, port: int, data: Path, embed: bool, on_ready: Callable[[], None]) -> int:
    """Serve until SIGINT or SIGTERM and return the process's exit status (1 when the address is in use)."""
    sys.setswitchinterval(SWITCH_SECONDS)
    worker = EmbeddedWorker(data / "worker.lock") if embed else None
    if worker is not None:
        worker.start()
        drain = drain_seconds(SERVER_DRAIN_SECONDS)
        stop = partial(worker.stop, stop_seconds(drain), drain=drain)
        reactor.addSystemEventTrigger("before", "shutdown", lambda: stopping(reactor, stop))
    # Imported late: after a crash the worker continues runs while the pages are still being loaded.
    from wfdash.asgi import application
    from wfdash.http import BODY_SECONDS

    bound_requests(settings.WFDASH_MAX_BODY, BODY_SECONDS)
    # gc.freeze(): keep start-up objects out of GC pauses, which stop every thread for about 100 ms.
    gc.freeze()
    tcp.Port.numberAccepts = property(lambda port: ACCEPTS, lambda port, more: None)  # type: ignore[assignment]
    endpoints = build_endpoint_description_strings(host=host, port=port)  # type: ignore[no-untyped-call]
    server = Server(  # type: ignore[no-untyped-call]
        application=application,
        endpoints=[f"{endpoint}:backlog={BACKLOG}" for endpoint in endpoints],
        server_name="wfdash",
        ready_callable=on_ready,
        action_logger=None,
        websocket_timeout=-1,
        application_close_timeout=5,
    )
    server.run()  # type: ignore[no-untyped-call]
    if server.abort_start:
        print(f"Cannot listen on {host}:{port}: is it in use? Choose another with --port", file=sys.stderr)  # noqa: T201
        if worker is not None:
            worker.stop(STOP_SECONDS)
        return 1
    return 0

"""One process that serves pages and sockets and runs workflows: daphne in the main thread, the worker beside it.

daphne has no lifespan, so start and stop are handled here: the worker starts before the server listens, and the reactor
delays its shutdown until requests are answered, sockets closed, and the worker has released every run.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from daphne.server import Server as DaphneServer  # isort: skip
from autobahn.websocket.types import ConnectionDeny
from daphne import http_protocol
from daphne.endpoints import build_endpoint_description_strings
from daphne.ws_protocol import WebSocketProtocol
from django.conf import settings
from twisted.internet import reactor as _reactor
from twisted.internet import tcp
from twisted.internet.defer import Deferred

from wfdash.installation.stopping import stopping
from wfdash.worker.process import (
    SERVER_DRAIN_SECONDS,
    STOP_SECONDS,
    EmbeddedWorker,
    drain_seconds,
    hold_shutdown,
    stop_seconds,
)

# Importing this installs Twisted's asyncio reactor; nothing may use the reactor before.


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


GOES_AWAY = 1012
"""The close code of sockets whose server stops: the client connects again, maybe elsewhere."""
CLOSE_SECONDS = 20
"""How long a client may take for what was sent before its socket was closed. autobahn's own second is short: whatever a
slow connection has not carried by then is thrown away, also the next time the client asks for it.
"""
GOODBYE_SECONDS = 1.0
"""The same while the server stops."""
CHECK_SECONDS = 1.0
"""As daphne's own, between two looks after the connections."""
LOOK_SECONDS = 0.02
"""Between two looks whether all has been answered."""
FLUSH_SECONDS = 0.05
"""For the last bytes of the last answers."""


SHARE_OF_FILES = 0.9
"""Of the files that this process may open: beyond that share requests and probes are answered, sockets are refused."""


class Server(DaphneServer):
    """A daphne whose ``send`` waits while the client does not take what was sent: daphne's own buffers all of it.

    When it stops it answers the requests that have begun, for ``drain`` seconds at most: daphne's own cuts them off.
    """

    connections: dict[Any, dict[str, Any]]
    drain = SERVER_DRAIN_SECONDS
    most = sys.maxsize
    """Open files from which on no socket is taken."""

    def __init__(self, application: Any, **options: Any) -> None:
        super().__init__(application, **options)  # type: ignore[no-untyped-call]
        self._ports: list[Any] = []
        self._looks, self._rests = 0, False

    def listen_success(self, port: Any) -> None:
        """Keep what listens."""
        self._ports.append(port)
        self.ws_factory.closeHandshakeTimeout = CLOSE_SECONDS  # its setter would reset other options
        super().listen_success(port)  # type: ignore[no-untyped-call]

    def protocol_connected(self, protocol: Any) -> None:
        """Keep a connection, and look after it from now on."""
        # A new file gets the lowest number that is free.
        transport: Any = protocol.transport if isinstance(protocol, WebSocketProtocol) else None
        if transport is not None and transport.getHandle().fileno() >= self.most:
            raise ConnectionDeny(503, "Too many open connections")  # type: ignore[no-untyped-call]
        super().protocol_connected(protocol)  # type: ignore[no-untyped-call]
        if self._rests:
            self._rests = False
            reactor.callLater(CHECK_SECONDS, self.application_checker)

    def protocol_disconnected(self, protocol: Any) -> None:
        """Note that a connection has ended, if it was kept."""
        if protocol in self.connections:
            super().protocol_disconnected(protocol)  # type: ignore[no-untyped-call]

    def application_checker(self) -> None:
        """Look after the connections each second, and for their timeouts each other second; rest while there are none.

        daphne has a timer for each, which wake a server without connections, too.
        """
        if not self.connections:
            self._rests = True
            return
        self._looks += 1
        if self._looks % 2 == 0:
            for protocol in list(self.connections):
                _check_timeouts(protocol)
        super().application_checker()  # type: ignore[no-untyped-call]

    def timeout_checker(self) -> None:
        """Do nothing: ``application_checker`` does it."""

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Send a message, and wait for the client where there is more to come."""
        if message["type"] == "websocket.close" and not _is_at(WebSocketProtocol.STATE_CONNECTING, protocol):
            # daphne's own way refuses 1011: the client would hear of it a second later, and the log get a traceback.
            protocol.sendCloseFrame(code=message.get("code", 1000))
            return
        await super().handle_reply(protocol, message)  # type: ignore[no-untyped-call]
        flow: FlowControl | None = getattr(protocol, "flow", None)
        if flow is not None and message.get("more_body", False):
            await flow.wait()

    def kill_all_applications(self) -> Deferred[Any]:
        """Take no more connections, and delay the shutdown until what has begun is over."""
        return Deferred.fromFuture(asyncio.ensure_future(self._wind_down()))

    async def _wind_down(self) -> None:
        for port in self._ports:
            port.stopListening()
        stopping.begin()
        began = time.monotonic()
        self._send_away()
        while (took := time.monotonic() - began) < self.drain and self._unanswered(took):
            await asyncio.sleep(LOOK_SECONDS)
            self._send_away()
        await asyncio.sleep(FLUSH_SECONDS)
        left = [app for details in self.connections.values() if (app := details.get("application_instance"))]
        for application in left:
            application.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _send_away(self) -> None:
        """Close the sockets, also those that have been accepted since the last look."""
        for protocol in list(self.connections):
            if _is_at(WebSocketProtocol.STATE_OPEN, protocol):
                protocol.sendCloseFrame(code=GOES_AWAY, reasonUtf8=b"The server stops")

    def _unanswered(self, took: float) -> bool:
        """Return whether a request, complete or not, or a socket has not ended. A client that does not take that its
        socket is closed is waited for no longer than that.
        """
        return any(
            "disconnected" not in details
            and not (took > GOODBYE_SECONDS and _is_at(WebSocketProtocol.STATE_CLOSING, protocol))
            for protocol, details in self.connections.items()
        )


def _check_timeouts(protocol: Any) -> None:
    """Look for a connection's timeouts; one that cannot be looked at must not end the looks after all others."""
    try:
        protocol.check_timeouts()
    except Exception:
        log.exception("Could not look for the timeouts of a connection")


def _is_at(state: int, protocol: Any) -> bool:
    """Return whether a connection is a socket, and that far."""
    return isinstance(protocol, WebSocketProtocol) and bool(protocol.state == state)


class Signals:
    """SIGINT and SIGTERM: the first stops the reactor, the next lets no one wait for what still runs."""

    def __init__(self, server: Server, worker: EmbeddedWorker | None) -> None:
        self._server, self._worker = server, worker
        self._again = False

    def install(self) -> None:
        """Replace the reactor's own handlers, in the main thread once it runs."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        if not self._again:
            self._again = True
            reactor.callFromThread(reactor.stop)
            return
        self._server.drain = 0.0
        if self._worker is not None:
            self._worker.cut()


def serve(*, host: str, port: int, data: Path, embed: bool, on_ready: Callable[[], None]) -> int:
    """Serve until SIGINT or SIGTERM and return the process's exit status (1 when the address is in use)."""
    sys.setswitchinterval(SWITCH_SECONDS)
    worker = EmbeddedWorker(data / "worker.lock") if embed else None
    drain = drain_seconds(SERVER_DRAIN_SECONDS)
    if worker is not None:
        try:
            worker.start()
        except OSError as error:
            words = f"Cannot write {error.filename} ({error.strerror}). Is the data directory writable?"
            print(words, file=sys.stderr)
            return 1
        stop = partial(worker.stop, stop_seconds(drain), drain=drain)
        reactor.addSystemEventTrigger("before", "shutdown", lambda: hold_shutdown(reactor, stop))
    # Imported late: after a crash the worker continues runs while the pages are still being loaded.
    from wfdash.asgi import application
    from wfdash.web.http import BODY_SECONDS

    bound_requests(settings.WFDASH_MAX_BODY, BODY_SECONDS)
    # gc.freeze(): keep start-up objects out of GC pauses, which stop every thread for about 100 ms.
    gc.freeze()
    gc.enable()
    tcp.Port.numberAccepts = property(lambda port: ACCEPTS, lambda port, more: None)  # type: ignore[assignment]
    endpoints = build_endpoint_description_strings(host=host, port=port)  # type: ignore[no-untyped-call]
    server = Server(
        application=application,
        endpoints=[f"{endpoint}:backlog={BACKLOG}" for endpoint in endpoints],
        server_name="wfdash",
        ready_callable=on_ready,
        action_logger=None,
        websocket_timeout=-1,
        application_close_timeout=5,
    )
    server.drain = drain
    server.most = int(SHARE_OF_FILES * resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    reactor.callWhenRunning(Signals(server, worker).install)
    server.run()  # type: ignore[no-untyped-call]
    if server.abort_start:
        print(f"Cannot listen on {host}:{port}: is it in use? Choose another with --port", file=sys.stderr)
        if worker is not None:
            worker.stop(STOP_SECONDS)
        return 1
    return 0


# What daphne keeps of a request in memory: it buffers a whole body before any of our code is called, and whatever of a

WASTE = 4
"""A client that keeps sending is disconnected after this many times the maximum body."""

_REQUEST: Any = http_protocol.WebRequest


def bound_requests(most: int, seconds: float) -> None:
    """Make daphne keep at most ``most`` bytes and one more of each body: enough to see that it is too large.

    The rest is dropped as it arrives, so that a client which sends a little too much still reads its 413. A body that
    takes longer than ``seconds`` to arrive ends its connection.
    """

    class Bounded(BoundedRequest):
        limit, longest = most, seconds

    vars(http_protocol)["WebRequest"] = Bounded  # daphne's factory reads it there and has no other setting for it.


class FlowControl:
    """Whether a connection takes more of its response: what Twisted calls a push producer."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    async def wait(self) -> None:
        """Return once the connection takes more, or is gone."""
        await self._open.wait()

    def pauseProducing(self) -> None:
        """Close: more is buffered than Twisted likes to."""
        self._open.clear()

    def resumeProducing(self) -> None:
        """Open: the buffer is empty."""
        self._open.set()

    def stopProducing(self) -> None:
        """Open: the connection is gone."""
        self._open.set()


class BoundedRequest(_REQUEST):  # type: ignore[misc]
    """A request whose body is limited in size and time, and whose endless response waits for the client."""

    limit = 0
    longest = 0.0
    """Seconds that a body may take to arrive."""
    _received = 0
    _deadline: Any = None
    flow: FlowControl | None = None
    """Of a response that is sent piece by piece."""

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Send a message of the application; with the first piece of several it is controlled."""
        more = message["type"] == "http.response.body" and message.get("more_body", False)
        if more and self.flow is None and not self.finished and self.channel is not None:
            self.flow = FlowControl()
            self.registerProducer(self.flow, True)
        elif not more and self.flow is not None and self.producer is self.flow:
            self.unregisterProducer()
        super().handle_reply(message)

    def gotLength(self, length: int | None) -> None:
        """Start the body's timeout. ``length``: as declared, None for chunks, 0 without a body."""
        super().gotLength(min(length, self.limit + 1) if length else length)
        if length is None or length > 0:
            self._deadline = self.channel.callLater(self.longest, self._hang_up)
        if length is not None and length > WASTE * self.limit:
            self._hang_up()

    def handleContentChunk(self, data: bytes) -> None:
        """Keep what is within the limit."""
        room = self.limit + 1 - self._received
        self._received += len(data)
        if room > 0:
            super().handleContentChunk(data[:room])
        elif self._received > WASTE * self.limit:
            self._hang_up()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Handle the request: it is complete."""
        self._stop_clock()
        # Django reads forms, in a thread. Twisted would read each in the event loop, for arguments no one asks for.
        self._parsePOSTFormSubmission = False
        super().requestReceived(command, path, version)

    def connectionLost(self, reason: Any) -> None:
        """Stop the timeout, and let no one wait for the client."""
        self._stop_clock()
        if self.flow is not None:
            self.flow.stopProducing()
        super().connectionLost(reason)

    def _hang_up(self) -> None:
        self._stop_clock()
        if self.channel is not None:
            self.channel.transport.abortConnection()

    def _stop_clock(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None and deadline.active():
            deadline.cancel()

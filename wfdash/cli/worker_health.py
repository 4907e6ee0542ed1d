"""The health port of a worker process: ``/livez``, ``/readyz`` and ``/metrics``, and nothing else of the dashboard."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db import DatabaseError, connections
from django.http import HttpRequest, HttpResponse

from checkpoints.database.direct import keep_limits, replies_within
from wfdash.access.viewer import viewer_for
from wfdash.web.pages.site import health
from wfdash.web.problems import with_retry

View = Callable[[HttpRequest], HttpResponse]
VIEWS: Mapping[str, View] = {"/livez": health.livez, "/readyz": health.readyz, "/metrics": health.metrics}
PASSED = ("Accept", "Authorization")
"""Headers that the views read."""
METRICS_SECONDS = 15.0
"""For the database's replies to all that metrics ask."""
CLIENT_SECONDS = 10.0
"""The longest time a client may take for its request."""


class HealthHandler(BaseHTTPRequestHandler):
    """Answers one request in a thread of its own."""

    timeout = CLIENT_SECONDS
    server_version, sys_version = "wfdash", ""

    def do_GET(self) -> None:
        """Answer with one of the views, else with 404."""
        view = VIEWS.get(self.path.partition("?")[0])
        missing = HttpResponse("not found\n", status=404, content_type="text/plain")
        response = missing if view is None else self._ask(view)
        self.send_response(response.status_code)
        for name, value in response.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(response.content)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (as the base class has it)
        """Log nothing: probes come every few seconds."""

    def _ask(self, view: View) -> HttpResponse:
        request: Any = HttpRequest()
        request.method, request.path, request.viewer = str(self.command), self.path, viewer_for(AnonymousUser())
        request.META = {f"HTTP_{name.upper()}": self.headers[name] for name in PASSED if name in self.headers}
        keep_limits()
        try:
            with replies_within(health.PROBE_SECONDS.get(request.path, METRICS_SECONDS)):
                return view(request)
        except DatabaseError:
            return with_retry(HttpResponse("the database did not respond\n", "text/plain", 503))
        finally:
            connections.close_all()


class HealthServer6(ThreadingHTTPServer):
    """The same on an IPv6 address."""

    address_family = socket.AF_INET6


def serve_health(host: str, port: int) -> ThreadingHTTPServer:
    """Answer probes from now on, in threads; returns the server. ``OSError`` where the port is in use."""
    server = (HealthServer6 if ":" in host else ThreadingHTTPServer)((host, port), HealthHandler)
    Thread(target=server.serve_forever, name="wfdash-health", daemon=True).start()
    return server

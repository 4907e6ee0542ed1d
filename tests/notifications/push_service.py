"""A push service on this machine, and a browser: real keys, a real endpoint, messages decrypted as a browser would."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from wfdash.notifications.push import encoded


@dataclass
class Arrived:
    """What was posted."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class PushService:
    """Answers every POST with ``status`` and keeps it."""

    url: str = ""
    status: int = 201
    arrived: list[Arrived] = field(default_factory=list)


class FakeBrowser:
    """A browser's side of a subscription: it alone has the private key."""

    def __init__(self, service: PushService, name: str = "one") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.auth = bytes(range(16))
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.subscription = {
            "endpoint": f"{service.url}/push/{name}",
            "p256dh": encoded(point),
            "auth": encoded(self.auth),
        }

    def read(self, body: bytes) -> dict[str, Any]:
        """Decrypt a message."""
        return dict(json.loads(http_ece.decrypt(body, private_key=self._key, auth_secret=self.auth)))


@contextmanager
def push_service() -> Iterator[PushService]:
    """Serve on a free port of this machine."""
    service = PushService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            service.arrived.append(Arrived(self.path, headers, body))
            self.send_response(service.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

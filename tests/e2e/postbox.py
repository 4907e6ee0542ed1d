"""A mail server of a few lines: it takes every mail and keeps it."""

from __future__ import annotations

import email
import socketserver
import threading
from email.message import EmailMessage
from email.policy import default
from typing import Any


class Talk(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        """Say yes to everything."""
        self._say("220 postbox")
        while line := self.rfile.readline().strip().upper():
            if line.startswith(b"DATA"):
                self._say("354 go on")
                self._keep()
            elif line.startswith(b"QUIT"):
                self._say("221 bye")
                return
            self._say("250 ok")

    def _keep(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in {b".\r\n", b""}:
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        server: Any = self.server
        server.mails.append(email.message_from_bytes(b"".join(lines), policy=default))

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


class Postbox:
    """Listens on a port of its own while it is entered."""

    def __enter__(self) -> Postbox:
        self._server: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk)
        self._server.daemon_threads = True
        self._server.mails = []
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """What ``WFDASH_MAIL`` is set to."""
        return f"smtp://127.0.0.1:{self._server.server_address[1]}"

    @property
    def mails(self) -> list[EmailMessage]:
        """What has come in so far."""
        return list(self._server.mails)

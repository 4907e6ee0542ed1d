"""The port to what carries texts between processes: everyone who listens gets what anyone sends, at most once."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence
from typing import Protocol


class BusSender(Protocol):
    """A connection that sends; used by one thread."""

    def send(self, texts: Sequence[str]) -> None:
        """Send ASCII texts, in this order. Any exception means that the connection is not used again."""

    def close(self) -> None:
        """Close the connection."""


class BusListener(Protocol):
    """A connection that receives; used by one thread."""

    def receive(self, wake: Wake, seconds: float) -> Sequence[str]:
        """Return what has come, in the order of sending; nothing after so many seconds or once ``wake`` is called.

        Any exception means that the connection is not used again.
        """

    def close(self) -> None:
        """Close the connection."""


class Bus(Protocol):
    """What carries the texts."""

    name: str
    """What it is called in the log."""
    remedy: str
    """What to do where nothing that is sent arrives."""
    most: int
    """Characters of a text at most."""

    def open_sender(self) -> BusSender:
        """Connect. Waits for ten seconds at most."""

    def open_listener(self) -> BusListener:
        """Connect and listen: what is sent after the return is received. Waits for ten seconds at most."""


class Wake:
    """Ends the waiting of a thread for a socket, from any other thread."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()

    def call(self) -> None:
        """End this waiting, and every later one."""
        self._theirs.send(b"!")

    def wait(self, fileno: int, seconds: float) -> None:
        """Return when there is something to read from the socket, after so many seconds, or once called."""
        with selectors.DefaultSelector() as selector:
            selector.register(fileno, selectors.EVENT_READ)
            selector.register(self._ours, selectors.EVENT_READ)
            selector.select(seconds)

    def close(self) -> None:
        """Close its sockets."""
        self._ours.close()
        self._theirs.close()

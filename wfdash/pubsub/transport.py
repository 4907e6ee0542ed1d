"""Carries messages between this process and others: one thread sends, one listens, each on its own connection.

Sending adds to what is pending and never waits. What is lost in an outage is found by polls.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import Any

from wfdash.pubsub.bus import Bus, BusListener, BusSender, Wake
from wfdash.pubsub.messages import Envelope, Message
from wfdash.pubsub.unsent import UnsentMessages

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.002
"""What is published together is sent together."""
GATHER_SECONDS = 0.01
"""Between two sendings."""
RETRY_SECONDS = 1.0
PROVE_SECONDS = 30.0
"""After so long without a text of its own a listener asks for one: a connection may have been lost silently."""
PATIENCE_SECONDS = 5.0
"""For that text to come."""
LATE = "Other processes hear of changes by their polls alone, within seconds: %s: %s: %s. Retrying each second"
LAST_SECONDS = 1.0
"""For what is pending when this process ends."""


class Unheard(Exception):
    """What is sent does not arrive."""


class Outage:
    """Logs one line when the first part fails, and one when all work again."""

    def __init__(self, carrier: str, late: str = LATE) -> None:
        """``late`` is the first line, with places for the carrier, the class of the error and what it says."""
        self._carrier, self._late = carrier, late
        self._since = 0.0
        self._failing: set[str] = set()
        self._lock = Lock()

    def has(self, part: str) -> bool:
        """Return whether a part fails now."""
        return part in self._failing

    def begin(self, part: str, error: Exception) -> None:
        """Note that a part fails."""
        with self._lock:
            if not self._failing:
                self._since = time.monotonic()
                text = str(error).strip().split("\n", 1)[0]
                log.warning(self._late, self._carrier, type(error).__name__, text)
            self._failing.add(part)

    def end(self, part: str) -> None:
        """Note that a part works."""
        if part in self._failing:
            with self._lock:
                self._failing.discard(part)
                if not self._failing:
                    log.info("%s works again after %.0f s", self._carrier, time.monotonic() - self._since)


class Transport:
    """Runs from ``start`` to ``close``."""

    def __init__(
        self,
        bus: Bus,
        envelope: Envelope,
        *,
        deliver: Callable[[Message], None],
        began: Callable[[], None] = lambda: None,
    ) -> None:
        """``deliver`` is called with each message of another process; ``began`` before the first of a connection: some
        may have been lost until then. Both are called in one thread.
        """
        self._bus, self._envelope = bus, envelope
        self._deliver, self._began = deliver, began
        self._unsent = UnsentMessages()
        self._outage = Outage(bus.name)
        self._closed = Event()
        self._wake = Wake()
        self._sent = 0.0
        self._threads = [
            Thread(target=self._send_until_closed, name="wfdash-signals-out", daemon=True),
            Thread(target=self._listen_until_closed, name="wfdash-signals-in", daemon=True),
        ]
        self.received = self.ignored = 0
        """Messages of other processes; texts that no process of this installation sent."""
        self.listening = Event()
        """Set while a text that was sent has been heard on this connection."""

    def start(self) -> None:
        """Begin; connecting is done by the threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Send what is pending, for a second at most, then end both threads."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._unsent.wanted.set()
        self._wake.call()
        for thread in self._threads:
            thread.join(LAST_SECONDS)
        if not any(thread.is_alive() for thread in self._threads):
            self._wake.close()

    def send(self, topic: str, *args: Any) -> None:
        """Let other processes have a message, soon. For any thread; never waits."""
        self._unsent.add(topic, *args)

    @property
    def dropped(self) -> int:
        """How many messages were dropped because too many waited."""
        return self._unsent.dropped

    def _send_until_closed(self) -> None:
        connection = _Sending(self._bus)
        texts: Sequence[str] = ()
        while texts or not self._closed.is_set() or self._unsent.wanted.is_set():
            texts = texts or self._gathered()
            try:
                connection.send(texts)
                texts = ()
                self._sent = time.monotonic()
                self._outage.end("send")
            except Exception as error:
                self._outage.begin("send", error)
                if connection.refused:
                    texts = ()
                if self._closed.wait(RETRY_SECONDS):
                    break
        connection.close()

    def _gathered(self) -> Sequence[str]:
        """Return what was published, once there is something."""
        self._unsent.wanted.wait()
        self._closed.wait(max(SETTLE_SECONDS, self._sent + GATHER_SECONDS - time.monotonic()))
        return list(self._envelope.pack(self._unsent.take(), self._bus.most))

    def _listen_until_closed(self) -> None:
        while not self._closed.is_set():
            listener: BusListener | None = None
            try:
                listener = self._bus.open_listener()
                self._began()
                self._receive(listener)
            except Exception as error:
                if not self._closed.is_set():
                    self._outage.begin("listen", error)
            finally:
                self.listening.clear()
                close_quietly(listener)
            self._closed.wait(RETRY_SECONDS)

    def _receive(self, listener: BusListener) -> None:
        """Deliver what comes until ``close``; raises if the connection is lost."""
        asked, due = math.inf, 0.0
        while not self._closed.is_set():
            if (now := time.monotonic()) >= due:
                if self._sent > asked:
                    raise Unheard(f"what is sent does not arrive. {self._bus.remedy}")
                self._unsent.add("hello")
                asked, due = now, now + PATIENCE_SECONDS
            own = [text for text in listener.receive(self._wake, due - now) if self._take(text)]
            if own:
                asked, due = math.inf, time.monotonic() + PROVE_SECONDS
                self.listening.set()
                self._outage.end("listen")

    def _take(self, text: str) -> bool:
        """Deliver what another process sent; return whether this process sent the text."""
        packet = self._envelope.open(text)
        if packet is None:
            self.ignored += 1
            return False
        self.received += len(packet.messages)
        for message in packet.messages:
            try:
                self._deliver(message)
            except Exception:
                log.exception("A message of another process about %r could not be delivered", message.topic)
        return packet.origin == self._envelope.origin


class _Sending:
    """A connection that is opened when it is needed, and again where it was lost since."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._sender: BusSender | None = None
        self.refused = False
        """Whether a new connection did not take the texts: it will not later."""

    def send(self, texts: Sequence[str]) -> None:
        """Send the texts; raises if that fails on a new connection."""
        if self._sender is not None:
            try:
                return self._sender.send(texts)
            except Exception:
                # It may have ended long ago; nothing was known to be wrong.
                self.close()
        self.refused = False
        self._sender = self._bus.open_sender()
        try:
            self._sender.send(texts)
        except Exception:
            self.refused = True
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        close_quietly(self._sender)
        self._sender = None


def close_quietly(connection: BusSender | BusListener | None) -> None:
    """Close a connection that may be lost."""
    with contextlib.suppress(Exception):
        if connection is not None:
            connection.close()

"""Carries messages between this process and others: one thread sends, one listens, each on its own connection.

Sending adds to what is pending and never waits. What is lost in an outage is found by polls.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import math
import time
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from checkpoints.content.encryption import Encryptor
from checkpoints.errors import CheckpointsError
from wfdash.pubsub.bus import Bus, BusListener, BusSender, Wake

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


# What has been published and not yet sent to other processes: the newest per run, text joined, bounded.

MAX_UNSENT_MESSAGES = 10_000
"""Messages that wait to be sent; the oldest beyond them are dropped, and polls find what they said."""
MOST_TEXT = 1_000_000
"""Characters of streamed text that wait; of text beyond them the beginning is dropped."""
Args = tuple[Any, ...]


@dataclass(slots=True)
class _Unsent:
    """One message to be; ``key``: what later ones are joined with it by."""

    topic: str
    key: Hashable
    args: Args
    texts: list[str]
    place: int


class UnsentMessages:
    """Messages in the order of publishing. For any thread; no call waits for more than another."""

    def __init__(self, most: int = MAX_UNSENT_MESSAGES) -> None:
        self.wanted = Event()
        """Set while there is something to send."""
        self.dropped = 0
        self._most = most
        self._lock = Lock()
        self._reset()

    def add(self, topic: str, *args: Any) -> None:
        """Add what was published."""
        with self._lock:
            match topic:
                case "run":
                    self._raise(*args)
                case "text":
                    self._join(*args)
                case "ended":
                    self._end(*args)
                case _:
                    if (topic, *args) not in self._open:
                        self._append(topic, (topic, *args), args)
        if not self.wanted.is_set():
            self.wanted.set()

    def take(self) -> list[Message]:
        """Return all of it, oldest first, and begin with nothing."""
        with self._lock:
            entries = self._entries
            self._reset()
            self.wanted.clear()
        return [
            Message(one.topic, (*one.args[:2], "".join(one.texts), *one.args[2:]) if one.texts else one.args)
            for one in entries.values()
        ]

    def _reset(self) -> None:
        self._places = count()
        self._entries: OrderedDict[int, _Unsent] = OrderedDict()
        self._open: dict[Hashable, _Unsent] = {}
        self._characters = 0

    def _append(self, topic: str, key: Hashable, args: Args) -> _Unsent:
        if len(self._entries) >= self._most:
            _, oldest = self._entries.popitem(last=False)
            self.dropped += 1
            self._characters -= sum(map(len, oldest.texts))
            if self._open.get(oldest.key) is oldest:
                del self._open[oldest.key]
        entry = self._open[key] = _Unsent(topic, key, args, [], next(self._places))
        self._entries[entry.place] = entry
        return entry

    def _raise(self, run: str, seq: int) -> None:
        key = ("run", run)
        if (entry := self._open.get(key)) is None:
            self._append("run", key, (run, seq))
        elif seq > entry.args[1]:
            # After what was published since, such as the text of a step that ends with these events.
            entry.args = (run, seq)
            self._entries.move_to_end(entry.place)

    def _join(self, run: str, step: str, text: str, begin: bool) -> None:
        if len(text) > (room := MOST_TEXT - self._characters):
            self.dropped += 1
            text = text[-room:] if room else ""
        if not text:
            return
        self._characters += len(text)
        key = ("text", run, step)
        if begin or (entry := self._open.get(key)) is None:
            entry = self._append("text", key, (run, step, begin))
        entry.texts.append(text)

    def _end(self, run: str, step: str) -> None:
        ended = (
            [("text", run, step)]
            if step
            else [key for key in self._open if (isinstance(key, tuple) and key[:2] == ("text", run))]
        )
        for key in ended:
            self._open.pop(key, None)
        # Never joined with an earlier one: text may lie between them.
        self._append("ended", object(), (run, step))


# What crosses between processes: messages of topics, packed into texts that are short enough and can be trusted.

LARGEST = 2**63 - 1
SIGNATURE = 22
"""Characters of a signature: 16 bytes."""
NUMBER = 17
"""Characters of a text's number and the blank behind it at most."""
ORIGINS = 1_000
"""Processes of which the number of the last text is kept."""
FIELDS: Mapping[str, tuple[type, ...]] = {
    "due": (str,),
    "backlog": (),
    "lead": (str,),
    "run": (str, int),
    "text": (str, str, str, bool),
    "ended": (str, str),
    "inbox": (str,),
    "notified": (str,),
    "request": (str, str, str),
    "rights": (str,),
    "consult": (str, str),
    "consulted": (str,),
    "hello": (),
}
"""The types of a message's arguments, by topic."""


class Message(NamedTuple):
    """What was published to a topic."""

    topic: str
    args: tuple[Any, ...]


class Packet(NamedTuple):
    """A text that was received: which process sent it, and its messages."""

    origin: str
    messages: Sequence[Message]


class Envelope:
    """Signs what this process sends, and opens what others do."""

    def __init__(self, origin: str, *, keys: Sequence[bytes], encryptor: Encryptor) -> None:
        """``keys``: of the installation, the first one signs; ``encryptor``: of what is readable on the way."""
        self.origin = origin
        self._keys, self._encryptor = keys, encryptor
        self._numbers, self._heard = count(1), OrderedDict[str, int]()

    def pack(self, messages: Iterable[Message], most: int) -> Iterator[str]:
        """Yield texts of at most ``most`` ASCII characters; what cannot be short enough is left out."""
        room = most - len(self.origin) - SIGNATURE - NUMBER - 2
        if self._encryptor.active:
            # Base64 of nonce, content and tag, behind the key's name.
            room = (room - 32) * 3 // 4 - 32
        group, used = list[str](), 2
        for one in messages:
            for text in _written(one, room - 2):
                if group and used + len(text) + 1 > room:
                    yield self._wrapped(group)
                    group, used = [], 2
                group.append(text)
                used += len(text) + 1
        if group:
            yield self._wrapped(group)

    def open(self, text: str) -> Packet | None:
        """Return what a process of this installation sent; None for anything else, and nothing of its own or of a text
        that is not later than the last of its process.
        """
        if not text.isascii():
            return None
        origin, _, rest = text.partition(" ")
        if origin == self.origin:
            return Packet(origin, ())
        signature, body = rest[:SIGNATURE], rest[SIGNATURE:]
        if not any(hmac.compare_digest(signature.encode(), self._sign(key, origin, body)) for key in self._keys):
            return None
        number, _, content = body.partition(" ")
        try:
            if not self._is_later(origin, int(number, 16)):
                return Packet(origin, ())
            found = json.loads(self._encryptor.decrypt(content, "pubsub", origin))
        except (ValueError, CheckpointsError, RecursionError):
            return None
        rows = found if isinstance(found, list) else []
        return Packet(origin, [one for row in rows if (one := read_message(row))])

    def _is_later(self, origin: str, number: int) -> bool:
        """Note a text's number; return whether it follows the last one. One thread sends, so they arrive in order."""
        last = self._heard.get(origin, 0)
        self._heard[origin] = max(last, number)
        self._heard.move_to_end(origin)
        if len(self._heard) > ORIGINS:
            self._heard.popitem(last=False)
        return number > last

    def _wrapped(self, group: Sequence[str]) -> str:
        content = self._encryptor.encrypt(f"[{','.join(group)}]", "pubsub", self.origin)
        # No two texts are the same: PostgreSQL would send one of them.
        body = f"{next(self._numbers):x} {content}"
        return f"{self.origin} {self._sign(self._keys[0], self.origin, body).decode()}{body}"

    @staticmethod
    def _sign(key: bytes, origin: str, body: str) -> bytes:
        return urlsafe_b64encode(hmac.digest(key, f"{origin} {body}".encode(), "sha256")[:16])[:SIGNATURE]


def key_of(secret: str) -> bytes:
    """Return the key for signatures that an installation's secret gives."""
    return sha256(f"wfdash.pubsub:{secret}".encode()).digest()


def read_message(row: object) -> Message | None:
    """Return the message in a JSON array; None if it is none, or of a later version."""
    if not isinstance(row, list) or not row or not isinstance(row[0], str) or row[0] not in FIELDS:
        return None
    topic, *args = row
    types = FIELDS[topic]
    if [type(one) for one in args] != list(types):
        return None
    if any(isinstance(one, int) and not 0 <= one <= LARGEST for one in args):
        return None
    return Message(topic, tuple(args))


def _written(message: Message, most: int) -> Iterator[str]:
    """Yield the message as JSON; streamed text that is too long in pieces, each after the one before."""
    text = json.dumps([message.topic, *message.args], separators=(",", ":"))
    if len(text) <= most:
        yield text
    elif message.topic == "text" and len(message.args[2]) > 1:
        run, step, streamed, begin = message.args
        half = len(streamed) // 2
        yield from _written(Message("text", (run, step, streamed[:half], begin)), most)
        yield from _written(Message("text", (run, step, streamed[half:], False)), most)

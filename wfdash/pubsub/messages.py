"""What crosses between processes: messages of topics, packed into texts that are short enough and can be trusted.

A text is JSON in ASCII behind the id of the process that sent it, a number and a signature: ids, numbers and streamed
text, and nothing else. What does not prove that a process of this installation made it is ignored, and so is what is
sent again.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple

from checkpoints.content.encryption import Encryptor
from checkpoints.errors import CheckpointsError

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

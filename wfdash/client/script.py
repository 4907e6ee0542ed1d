"""What a call does, as values: a script yields effects and is sent their results. Pure.

A script is written once. ``wfdash.client.client`` performs it with blocking sockets or asynchronously, and tests by
hand.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from checkpoints.records import frozen

T = TypeVar("T")


@frozen
class Exchange:
    """An HTTP request. ``timeout``: seconds that the server may stay silent beyond the driver's own limit."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 0.0


@frozen
class Response:
    """An HTTP response, or the head of one whose body is read line by line. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def good(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300


@frozen
class NoResponse:
    """The connection failed or ended. ``why``: the reason as text."""

    why: str


@dataclass(frozen=True)
class Send:
    """Send a request; the result is a ``Response`` or ``NoResponse``."""

    exchange: Exchange


@dataclass(frozen=True)
class Open:
    """Open a stream; the result is as that of ``Send``, but the body of a good reply is still to be read."""

    exchange: Exchange


@dataclass(frozen=True)
class ReadLine:
    """Read a line of the open stream; the result is its text, None at the end, or ``NoResponse``."""


@dataclass(frozen=True)
class ReadPiece:
    """Read what has arrived of the open stream; the result is bytes, None at the end, or ``NoResponse``."""


@dataclass(frozen=True)
class Sleep:
    """Wait some seconds."""

    seconds: float


@dataclass(frozen=True)
class ReadClock:
    """The result is a time in seconds that only grows."""


@dataclass(frozen=True)
class AskPatience:
    """The result is for how many seconds the driver tries again, by default, when the server cannot be reached."""


@dataclass(frozen=True)
class Emit:
    """Give an item to the caller, who iterates."""

    item: Any


Effect = Send | Open | ReadLine | ReadPiece | Sleep | ReadClock | AskPatience | Emit
Script = Generator[Effect, Any, T]
"""Yields effects, is sent their results, and returns a ``T``."""

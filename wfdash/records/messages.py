"""What event streams and the JSON sockets send besides events, and what a socket takes."""

from __future__ import annotations

from typing import Literal

from wfdash.records.base import ApiRecord, Body
from wfdash.records.runs import EventRecord

VERSION = 1
"""The version of the messages for programs. What is added to a message leaves it as it is."""


class StreamText(ApiRecord):
    """Text that a step streams, never stored. It follows the step's last piece.

    ``begin``: a new attempt begins, or this is all so far. ``cut``: some text before it is missing.
    """

    step: str
    text: str
    begin: bool = False
    cut: bool = False


class Snapshot(ApiRecord):
    """Events up to ``seq`` are not sent: they are no longer stored, or the cursor was beyond the end."""

    seq: int


class StreamEnd(ApiRecord):
    """The run has ended with event ``seq``. ``status``: completed, failed or cancelled."""

    seq: int
    status: str


class StreamProblem(ApiRecord):
    """The stream ends early, for a reason that the API's errors have, too."""

    status: int
    code: str
    title: str


class SocketMessage(ApiRecord):
    """Every message of a socket: the version of the messages, and a type."""

    v: Literal[1]


class SocketEvents(SocketMessage):
    """Events, in order. ``last``: the number of the last one, to acknowledge."""

    type: Literal["events"]
    events: list[EventRecord]
    last: int


class SocketCaughtUp(SocketMessage):
    """There is no more now."""

    type: Literal["caught_up"]
    seq: int


class SocketText(StreamText, SocketMessage):
    """Text that a step streams."""

    type: Literal["stream"]


class SocketSnapshot(Snapshot, SocketMessage):
    """Events up to ``seq`` are not sent: they are no longer stored, or the cursor was beyond the end."""

    type: Literal["snapshot"]


class SocketEnd(StreamEnd, SocketMessage):
    """The run has ended; the socket closes."""

    type: Literal["end"]


class SocketChanged(SocketMessage):
    """Lists have changed. ``what``: ``runs``, ``inbox``, ``notices``, ``request:ID``, ``people:ID``, ``request:*``."""

    type: Literal["changed"]
    what: list[str]


class Acknowledgement(Body):
    """What a client sends: it has every event up to this number."""

    ack: int

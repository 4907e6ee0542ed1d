"""Server-sent events: a stream's lines as messages, and following one through every break. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wfdash.client.errors import Unsupported, refusal
from wfdash.client.script import Emit, Exchange, NoResponse, Open, ReadLine, Script, Send, Sleep
from wfdash.client.sending import delays, parsed, replied

STREAM = "text/event-stream"
SILENCE = 45.0
"""Seconds without a line, comments included, after which a stream is taken for dead: three heartbeats."""
POLL = 1.0
"""Seconds between two looks where there is no stream."""


@dataclass(kw_only=True)
class Message:
    """One message of a stream, while its lines arrive."""

    id: str = ""
    event: str = ""
    data: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Add a line to it. Comments, and fields that say nothing to us, are skipped."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self.data.append(value)
        elif name == "id":
            self.id = value
        elif name == "event":
            self.event = value

    @property
    def json(self) -> Any:
        """Its data."""
        return json.loads("\n".join(self.data)) if self.data else None


def next_message() -> Script[Message | None]:
    """Return the next message of the open stream, None where the stream ends or breaks."""
    message = Message()
    while True:
        line: str | NoResponse | None = yield ReadLine()
        if line is None or isinstance(line, NoResponse):
            return None
        if line:
            message.take(line)
        elif message.event or message.data or message.id:
            return message
        else:
            message = Message()


@dataclass(frozen=True, kw_only=True)
class Source:
    """Something that can be followed from a cursor on.

    ``read``: an item from its JSON. ``cursor``: the place behind an item, as JSON page and stream name it.
    """

    path: str
    read: Callable[[Any], Any]
    query: Mapping[str, Any] = field(default_factory=dict)


def follow(source: Source, after: str, *, patience: float | None = None) -> Script[None]:
    """Emit everything after a cursor, in order and once, until it ends.

    A stream that breaks is opened again behind the last item. Where the server sends pages only, they are read.
    """
    broken = delays()
    while True:
        try:
            reply = yield from replied(Open(_exchange(source, after)), patience)
        except Unsupported:
            return (yield from _pages(source, after, patience))
        if STREAM not in reply.headers.get("content-type", ""):
            return (yield from _pages(source, after, patience))
        last, ended = yield from _stream(source, after)
        if ended:
            return None
        broken = delays() if last != after else broken
        after = last
        yield Sleep(next(broken))


def _exchange(source: Source, after: str) -> Exchange:
    headers = {"Accept": STREAM} | ({"Last-Event-ID": after} if after else {})
    return Exchange(method="GET", path=source.path, query=source.query, headers=headers, timeout=SILENCE)


def _stream(source: Source, after: str) -> Script[tuple[str, bool]]:
    """Emit what an open stream brings. Returns the cursor behind it, and whether the source has ended."""
    while True:
        message = yield from next_message()
        if message is None:
            return after, False
        if message.event == "end":
            return after, True
        if message.event == "problem" and (refused := refusal(message.json)):
            raise refused
        if message.event == "snapshot":
            # The stream leaves out what lies far behind: it is read from the pages.
            after = yield from _page_through(source, after, int(message.json["seq"]))
        if message.id:
            if message.data:
                yield Emit(source.read(message.json))
            after = message.id


def _page_through(source: Source, after: str, last: int) -> Script[str]:
    """Emit the items of pages up to one, and return the cursor behind it."""
    while int(after or 0) < last:
        page = yield from _page(source, after, None)
        for item in page["items"]:
            if int(item["seq"]) <= last:
                yield Emit(source.read(item))
                after = str(item["seq"])
        if not page["items"]:
            break
    return after


def _page(source: Source, after: str, patience: float | None) -> Script[dict[str, Any]]:
    exchange = Exchange(method="GET", path=source.path, query={**source.query, "after": after or None})
    return dict(parsed((yield from replied(Send(exchange), patience))))


def _pages(source: Source, after: str, patience: float | None) -> Script[None]:
    """Emit what the source's pages bring, looking again and again."""
    while True:
        page = yield from _page(source, after, patience)
        for item in page["items"]:
            yield Emit(source.read(item))
        moved, after = bool(page["items"]), str(page["next"] or after)
        if page.get("ended"):
            return
        if not moved and not page.get("more"):
            yield Sleep(POLL)

"""Requests that are tried again when the server cannot be reached; their answers as records, pages and streams. Pure.

Trying again never does a thing twice: every ``POST`` carries an idempotency key of its own, and the other methods may
be repeated.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from checkpoints.records import frozen
from wfdash.client.errors import ApiError, CodeElsewhere, Outdated, Unreachable, Unsupported, error_of, refusal
from wfdash.client.script import (
    AskPatience,
    Emit,
    Exchange,
    NoResponse,
    Open,
    ReadClock,
    ReadLine,
    ReadPiece,
    Response,
    Script,
    Send,
    Sleep,
)
from wfdash.records.base import ApiRecord

R = TypeVar("R", bound=ApiRecord)
ROOT = "api/v1"
FIRST_DELAY, LONGEST_DELAY, SHORTEST = 0.2, 10.0, 0.001
PASSING = frozenset({502, 503, 504})
"""What a server says that is about to be back: a proxy in front of it, a database that is restarted."""
KEY = "Idempotency-Key"
PAGE_ROWS = 100
STREAM = "text/event-stream"
SILENCE = 45.0
"""Seconds without a line, comments included, after which a stream is taken for dead: three heartbeats."""
POLL_SECONDS = 1.0
"""Seconds between two looks where there is no stream."""


def get(path: str, record: type[R], *, patience: float | None = None, timeout: float = 0.0, **query: Any) -> Script[R]:
    """Read something. ``timeout``: seconds that the server may wait before it answers."""
    return _recorded(record, exchange("GET", path, query=query, timeout=timeout), patience)


def post(
    path: str,
    record: type[R],
    body: Any = None,
    *,
    key: str | None = None,
    patience: float | None = None,
    **query: Any,
) -> Script[R]:
    """Do something, once: ``key`` names the command, so that the same one is known again by another process."""
    return _recorded(record, exchange("POST", path, query=query, body=body, headers=_once(key)), patience)


def put(path: str, record: type[R], body: Any, *, headers: Mapping[str, str] | None = None) -> Script[R]:
    """Replace something, and return what there is then."""
    return _recorded(record, exchange("PUT", path, body=body, headers=headers or {}), None)


def tell(method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> Script[None]:
    """Have something done that has no result."""
    keyed = _once(None) if method == "POST" else {}
    yield from replied(Send(exchange(method, path, body=body, headers=headers or keyed)), None)


def exchange(method: str, path: str, **more: Any) -> Exchange:
    """Return a request. ``path``: below the API's own address."""
    return Exchange(method=method, path=ROOT + path, **more)


def _once(key: str | None) -> dict[str, str]:
    return {KEY: key or uuid.uuid4().hex}


def _recorded(record: type[R], exchange: Exchange, patience: float | None) -> Script[R]:
    reply = yield from replied(Send(exchange), patience)
    return record.model_validate(parsed(reply))


def if_unchanged(path: str, as_read: Callable[[Any], bool]) -> Script[dict[str, str]]:
    """Return the header with which a change replaces only what was read; ``Outdated`` if that has changed since.

    ``as_read``: whether what there is now is what was read.
    """
    reply = yield from replied(Send(exchange("GET", path)), None)
    etag = reply.headers.get("etag", "")
    if not as_read(parsed(reply)):
        raise Outdated("It was changed since it was read", status=412, code="outdated", facts={"etag": etag})
    return {"If-Match": etag}


def part(name: str | int) -> str:
    """Return an id or a name as one part of an address. ``ValueError`` for a text that would mean another address."""
    text = str(name)
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} is neither an id nor a name")
    return quote(text, safe="@")


def delays(first: float = FIRST_DELAY) -> Iterator[float]:
    """Yield the seconds to wait before each further attempt: twice as long each time, and never all at once."""
    while True:
        yield first * random.uniform(0.75, 1.25)  # noqa: S311
        first = min(first * 2, LONGEST_DELAY)


def replied(effect: Send | Open, patience: float | None) -> Script[Response]:
    """Return the reply to a request; an ``ApiError`` for a refusal. Tries again for ``patience`` seconds.

    None: as long as the driver does.
    """
    limit = (yield AskPatience()) if patience is None else patience
    began = yield ReadClock()
    for delay in delays():
        reply: Response | NoResponse = yield effect
        if isinstance(reply, Response) and reply.good:
            return reply
        pause = _pause(reply, delay)
        left = limit - ((yield ReadClock()) - began)
        if pause is None or left < SHORTEST or pause > max(left, delay):
            raise Unreachable(reply.why) if isinstance(reply, NoResponse) else error_of(reply)
        yield Sleep(min(pause, left))
    raise AssertionError("delays never end")


def _pause(reply: Response | NoResponse, delay: float) -> float | None:
    """Return how long to wait before the next attempt; None for an answer that would be the same again."""
    if isinstance(reply, NoResponse):
        return delay
    if reply.status not in PASSING | {429} or isinstance(error_of(reply), CodeElsewhere):
        return None
    asked = reply.headers.get("retry-after", "")
    return max(delay, float(asked)) if asked.isdigit() else delay


def parsed(reply: Response) -> Any:
    """Return the JSON of a reply, None for an empty one."""
    try:
        return json.loads(reply.body) if reply.body else None
    except ValueError as error:
        kind = reply.headers.get("content-type", "no content type")
        raise ApiError(f"The answer is no JSON but {kind}: is this the address of a wfdash?") from error


EXPORT_SILENCE = 300.0
"""Seconds that the server may need before an export begins, or between two pieces of it."""


def pieces(path: str, **query: Any) -> Script[None]:
    """Emit the bytes of an export as they come. ``Unreachable`` if the connection breaks."""
    yield from replied(Open(exchange("GET", path, query=query, timeout=EXPORT_SILENCE)), None)
    while piece := (yield ReadPiece()):
        if isinstance(piece, NoResponse):
            raise Unreachable(piece.why)
        yield Emit(piece)


def pages(
    path: str,
    record: type[ApiRecord],
    query: Mapping[str, Any],
    *,
    most: int | None = None,
    limit: int | None = PAGE_ROWS,
) -> Script[None]:
    """Emit the items of a list, at most ``most``, reading the next page when it is needed.

    ``limit``: items of a page; None for a list that knows no such parameter.
    """
    left, query = most, dict(query)
    while left is None or left > 0:
        size = limit if left is None or limit is None else min(limit, left)
        page = yield from _page(path, {**query, "limit": size}, None)
        items = page["items"][:left]
        for item in items:
            yield Emit(record.model_validate(item))
        left = None if left is None else left - len(items)
        if not page["next"] or not _has_more(page):
            return
        query["after"] = page["next"]


def _page(path: str, query: Mapping[str, Any], patience: float | None) -> Script[dict[str, Any]]:
    return dict(parsed((yield from replied(Send(exchange("GET", path, query=query)), patience))))


def _has_more(page: Mapping[str, Any]) -> bool:
    """Return whether to read the next page, also where this one is empty and says that there is more."""
    return (
        bool(page["more"]) if "more" in page else bool(page["items"] or page.get("reached")) and not page.get("ended")
    )


@frozen
class Source:
    """A list that can be followed from a cursor on, and the record of its items."""

    path: str
    record: type[ApiRecord]


def follow(source: Source, after: str, *, patience: float | None = None) -> Script[None]:
    """Emit everything after a cursor, in order and once, until it ends.

    A stream that breaks is opened again behind the last item. Where the server sends pages only, they are read.
    """
    broken = delays()
    while True:
        headers = {"Accept": STREAM} | ({"Last-Event-ID": after} if after else {})
        opening = exchange("GET", source.path, headers=headers, timeout=SILENCE)
        try:
            reply = yield from replied(Open(opening), patience)
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
                yield Emit(source.record.model_validate(message.json))
            after = message.id


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


def _page_through(source: Source, after: str, last: int) -> Script[str]:
    """Emit the items of pages up to one, and return the cursor behind it."""
    while int(after or 0) < last:
        page = yield from _page(source.path, {"after": after or None}, None)
        for item in page["items"]:
            if int(item["seq"]) <= last:
                yield Emit(source.record.model_validate(item))
                after = str(item["seq"])
        if not page["items"]:
            break
    return after


def _pages(source: Source, after: str, patience: float | None) -> Script[None]:
    """Emit what the source's pages bring, looking again and again."""
    while True:
        page = yield from _page(source.path, {"after": after or None}, patience)
        for item in page["items"]:
            yield Emit(source.record.model_validate(item))
        moved, after = bool(page["items"]), str(page["next"] or after)
        if page.get("ended"):
            return
        if not moved and not page.get("more"):
            yield Sleep(POLL_SECONDS)

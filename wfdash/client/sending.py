"""Requests that are tried again when the server cannot be reached, and their answers as JSON or as errors. Pure.

Trying again never does a thing twice: every ``POST`` carries an idempotency key of its own, and the other methods may
be repeated.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from wfdash.client.errors import ApiError, CodeElsewhere, Outdated, Unreachable, error_of
from wfdash.client.script import AskPatience, Exchange, NoResponse, Open, ReadClock, Response, Script, Send, Sleep

ROOT = "api/v1"
FIRST_DELAY, LONGEST_DELAY, SHORTEST = 0.2, 10.0, 0.001
PASSING = frozenset({502, 503, 504})
"""What a server says that is about to be back: a proxy in front of it, a database that is restarted."""
KEY = "Idempotency-Key"


def get(path: str, *, patience: float | None = None, timeout: float = 0.0, **query: Any) -> Script[Any]:
    """Read something."""
    return _json(Exchange(method="GET", path=ROOT + path, query=query, timeout=timeout), patience)


def if_unchanged(path: str, as_read: Callable[[Any], bool]) -> Script[dict[str, str]]:
    """Return the header with which a change replaces only what was read; ``Outdated`` if that has changed since.

    ``as_read``: whether what there is now is what was read.
    """
    reply = yield from replied(Send(Exchange(method="GET", path=ROOT + path)), None)
    etag = reply.headers.get("etag", "")
    if not as_read(parsed(reply)):
        raise Outdated("It was changed since it was read", status=412, code="outdated", facts={"etag": etag})
    return {"If-Match": etag}


def post(
    path: str, body: Any = None, *, key: str | None = None, patience: float | None = None, **query: Any
) -> Script[Any]:
    """Do something, once: ``key`` names the command, so that the same one is known again by another process."""
    headers = {KEY: key or uuid.uuid4().hex}
    return _json(Exchange(method="POST", path=ROOT + path, query=query, body=body, headers=headers), patience)


def put(path: str, body: Any = None, *, headers: dict[str, str] | None = None) -> Script[Any]:
    """Replace something."""
    return _json(Exchange(method="PUT", path=ROOT + path, body=body, headers=headers or {}), None)


def delete(path: str, *, headers: dict[str, str] | None = None) -> Script[Any]:
    """Delete something."""
    return _json(Exchange(method="DELETE", path=ROOT + path, headers=headers or {}), None)


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


def _json(exchange: Exchange, patience: float | None) -> Script[Any]:
    reply = yield from replied(Send(exchange), patience)
    return parsed(reply)


def parsed(reply: Response) -> Any:
    """Return the JSON of a reply, None for an empty one."""
    try:
        return json.loads(reply.body) if reply.body else None
    except ValueError as error:
        kind = reply.headers.get("content-type", "no content type")
        raise ApiError(f"The answer is no JSON but {kind}: is this the address of a wfdash?") from error

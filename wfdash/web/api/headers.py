"""What the headers of a call to the API say: who asks, the key of a command, and what is known or replaced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from hashlib import sha256
from typing import Any, cast

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.functional import SimpleLazyObject
from django.utils.http import parse_etags
from ninja.security import HttpBearer, django_auth

from checkpoints.database.storage import write
from checkpoints.models import Token
from checkpoints.records import Json
from wfdash.access.signin import tokens
from wfdash.access.signin.attempt_limits import address_of
from wfdash.access.viewer import Viewer, evaluated
from wfdash.actions.pacing import idempotent, previous_result
from wfdash.domain.errors import ConditionMissing, Invalid, NotAllowed, Outdated

# A token, or a signed-in browser's session; and the idempotency key.

HEADER = "Idempotency-Key"
"""The same command with the same key is done once; with another command it is a conflict (409)."""
LONGEST_KEY = 500
READING = frozenset({"GET", "HEAD", "OPTIONS"})
READS = frozenset({"see", "inspect"})
READ_ONLY = "This token may only read. Use one that may answer, start or operate"


class BearerToken(HttpBearer):
    """``Authorization: Bearer wfd_...``. A request with one is never signed in by its cookies: a bad one is 401."""

    openapi_description = "A token made under Settings, Tokens, or by `wfdash token create`."

    def authenticate(self, request: HttpRequest, token: str) -> Token:
        """Return the token and act as its owner. ``BadToken``, ``TooManyTries``; ``NotAllowed`` if it may only read."""
        found = tokens.use_token(token.strip(), address=address_of(request.META))
        request.user = found.owner
        request.viewer = SimpleLazyObject(lambda: tokens.viewer_of(found))  # type: ignore[attr-defined]
        if request.method not in READING and tokens.scope_of(found).rights <= READS:
            raise NotAllowed(READ_ONLY)
        return found


AUTH = [BearerToken(), django_auth]
"""Tried in this order. Django's check against forged requests (CSRF) belongs to the session alone."""


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the viewer of a request."""
    return evaluated(cast(Viewer, request.viewer))  # type: ignore[attr-defined]


def key_of(request: HttpRequest) -> str | None:
    """Return the idempotency key from the header, None without one. ``Invalid`` if it is too long."""
    key = request.headers.get(HEADER) or None
    if key and len(key) > LONGEST_KEY:
        raise Invalid([{"loc": [HEADER], "msg": f"At most {LONGEST_KEY} characters"}])
    return key


# ``Idempotency-Key`` for actions that have none of their own.


def once(
    request: HttpRequest, verb: str, command: Json, act: Callable[[], Mapping[str, Json] | None]
) -> Mapping[str, Json]:
    """Return the ids and numbers that ``act`` returns. With the header's key it is done once, and they are returned
    again. ``KeyReused`` if the key came with another command.
    """
    with write(), idempotent(viewer_of(request), key_of(request), verb, command) as call:
        if call.previous_result is not None:
            return call.previous_result
        made = act() or {}
        call.record(**made)
    return made


@contextmanager
def bound_key(request: HttpRequest, verb: str, command: Json) -> Iterator[str | None]:
    """Yield the header's key for a command of many parts, each in its own transaction and under a key made from it.

    Once all parts were tried, the key belongs to this command. ``KeyReused`` if it came with another one.
    """
    viewer, key = viewer_of(request), key_of(request)
    previous_result(viewer, key, verb, command)
    yield key
    with write(), idempotent(viewer, key, verb, command):
        pass


# ``ETag``, ``If-None-Match`` and ``If-Match``: nothing is sent twice, and no one replaces what someone else has changed
# since it was read. A tag says two things, joined by a dot: what a change replaces (where that can be changed), and the
# whole answer. ``If-Match`` compares the first part alone: a schedule that has fired since is still the one that was
# read.

ANY = "*"


def etag_of(value: Mapping[str, Any]) -> str:
    """Return the tag of what a change replaces: it changes with each of its fields."""
    return f'"{_digest(json.dumps(value, sort_keys=True, default=str).encode())}"'


def with_etag(response: HttpResponse, value: Mapping[str, Any]) -> None:
    """Give a response the tag of what a change replaces."""
    response["ETag"] = etag_of(value)


def sent_once(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Return the view whose answer to a GET has a tag, and which answers 304 where ``If-None-Match`` has that tag."""

    @wraps(view)
    def asked(request: HttpRequest, *args: Any, **values: Any) -> HttpResponse:
        response = view(request, *args, **values)
        if request.method != "GET" or response.status_code != 200 or response.streaming:
            return response
        replaced = response.headers["ETag"].strip('"') + "." if "ETag" in response.headers else ""
        tag = f'"{replaced}{_digest(response.content)}"'
        response["ETag"] = tag
        known = {_strong(one) for one in parse_etags(request.headers.get("If-None-Match", ""))}
        return HttpResponseNotModified(headers={"ETag": tag}) if known & {tag, ANY} else response

    return asked


@contextmanager
def if_match(
    request: HttpRequest, rows: QuerySet[Any], present: Callable[[], Mapping[str, Any]], *, required: bool = False
) -> Iterator[None]:
    """Run a change in one transaction, if the value is still the one whose tag ``If-Match`` names.

    ``rows``: what to lock, so that no one comes between. ``present`` reads the value. ``Outdated``; without the header
    ``ConditionMissing`` where it is required.
    """
    given = request.headers.get("If-Match", "")
    if not given and required:
        present()  # What is not there, or not theirs, is not found.
        raise ConditionMissing
    with write():
        if given not in {"", ANY}:
            list(rows.select_for_update(no_key=True).values_list("pk", flat=True))
            now = etag_of(present())
            if now not in {_replaced(one) for one in parse_etags(given)}:
                raise Outdated(etag=now)
        yield


def _strong(tag: str) -> str:
    """Return a tag that a proxy or our own compression may have made weak: the value is the same."""
    return tag.removeprefix("W/")


def _replaced(tag: str) -> str:
    """Return the part of a tag that says what a change replaces."""
    return '"' + _strong(tag).strip('"').partition(".")[0] + '"'


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]

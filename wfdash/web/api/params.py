"""What calls to the API say beside their bodies, in parameters and headers, and the refusal of unknown parameters.

Headers say who asks, the key of a command, and what is known or replaced. Answers come without the fields of pages.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from hashlib import sha256
from typing import Annotated, Any, cast, get_type_hints

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.functional import SimpleLazyObject
from django.utils.http import parse_etags
from ninja import Status
from ninja.parser import Parser
from ninja.security import HttpBearer, django_auth
from pydantic import BaseModel, Field

from checkpoints.database.storage import write
from checkpoints.limits import MOST_NODES
from checkpoints.models import Token
from checkpoints.records import Json
from wfdash.access.signin import tokens
from wfdash.access.signin.attempt_limits import address_of
from wfdash.access.signin.identities import provider_in_use
from wfdash.access.viewer import Viewer, evaluated
from wfdash.actions.pacing import idempotent, previous_result
from wfdash.domain.errors import ConditionMissing, Invalid, NotAllowed, Outdated, wrong
from wfdash.records.base import ApiRecord
from wfdash.values.schemas.work import has_more_values
from wfdash.web.api.long_poll import MAX_WAIT_SECONDS

# Bodies of the API as JSON, read without guessing what a sender may have meant.

LONGEST_NAME = 80
MOST_VALUES = 4 * MOST_NODES
"""Values of a body: it may hold several messages."""


class BadBody(ValueError):
    """A body that is no JSON, or that says two things at once. Its text is for people."""


class StrictParser(Parser):
    """Reads JSON in which each field is given once and each number is one: other readers may take another of two."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the body's value. ``BadBody``."""
        if has_more_values(request.body, MOST_VALUES):
            raise BadBody(f"The body holds more than {MOST_VALUES:,} values: send large data as text, or in parts")
        try:
            return json.loads(request.body, object_pairs_hook=_once, parse_constant=_refuse, parse_int=_whole)
        except json.JSONDecodeError as error:
            raise BadBody(f"Invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
        except UnicodeDecodeError as error:
            raise BadBody("Invalid JSON: send it as UTF-8") from error
        except RecursionError as error:
            raise BadBody("Invalid JSON: nested too deeply") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise BadBody(f"The field {twice[:LONGEST_NAME]!r} is given more than once")
    return found


def _refuse(name: str) -> Any:
    raise BadBody(f"{name} is no JSON number")


def _whole(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:
        raise BadBody(f"A number has {len(digits)} digits: too many") from error


Limit = Annotated[int, Field(ge=1, le=1000)]
Wait = Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)]
"""Seconds to wait until there is something to say."""
Cursor = Annotated[str, Field(pattern=r"^([0-9]{0,18})$")]
"""Where a page begins that is found by number: the ``next`` of the page before."""
Number = Annotated[int, Field(ge=0, lt=2**63)]
Seq = Annotated[int, Field(ge=0, lt=2**63)]

MESSAGES = {"description": "The messages by address: /api/v1/messages.json"}
STREAM = {"responses": {200: {"content": {"text/event-stream": {"schema": {"type": "string", **MESSAGES}}}}}}
"""What the reference adds where the same address answers with an event stream."""


def refuse_unknown_parameters(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return the view that refuses a parameter of the address that it does not know, or that is given twice: a typo
    must not become a default.
    """
    known = parameters_of(view)

    @wraps(view)
    def refusing(request: HttpRequest, *args: Any, **values: Any) -> Any:
        if unknown := [name for name in request.GET if name not in known]:
            words = f"Unknown parameter. Available: {', '.join(known) or 'none'}"
            raise Invalid([wrong(name, words) for name in unknown])
        if twice := [name for name, values in request.GET.lists() if len(values) > 1]:
            raise Invalid([wrong(name, "Given more than once") for name in twice])
        return view(request, *args, **values)

    return refusing


def parameters_of(view: Callable[..., Any]) -> list[str]:
    """Return the names that a view takes from the address, and those of its body and path, which do no harm there."""
    hints = {name: kind for name, kind in get_type_hints(view).items() if name not in {"request", "return"}}
    return [
        field
        for name, kind in hints.items()
        for field in (list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else [name])
    ]


def without_fields_of_pages(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return the view whose answer has the declared fields only.

    A query may return a subclass of its record, with more fields for pages, and the framework would send them all.
    """

    @wraps(view)
    def declared(request: HttpRequest, *args: Any, **values: Any) -> Any:
        answer = view(request, *args, **values)
        if isinstance(answer, Status):
            return Status(answer.status_code, _declared(answer.value))
        return _declared(answer)

    return declared


def _declared(answer: Any) -> Any:
    is_of_a_page = isinstance(answer, ApiRecord) and not type(answer).__module__.startswith("wfdash.records.")
    return _Attributes(answer) if is_of_a_page else answer


class _Attributes:
    """What an object has, but not as a record: the framework takes the fields that the operation declares."""

    def __init__(self, record: ApiRecord) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)


# A token, or a signed-in browser's session; and the idempotency key.

AUDIENCE = "wfdash.audience"
"""What is in the ASGI scope of calls of the door for agents, where access tokens are taken: its address."""
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
        found = _token_of(request, token.strip())
        request.user = found.owner
        request.viewer = SimpleLazyObject(lambda: tokens.viewer_of(found))  # type: ignore[attr-defined]
        if request.method not in READING and tokens.scope_of(found).rights <= READS:
            raise NotAllowed(READ_ONLY)
        return found


def _token_of(request: HttpRequest, text: str) -> Token:
    """Return the token with this text. The provider's access tokens count where the door for agents calls, alone."""
    audience, provider = getattr(request, "scope", {}).get(AUDIENCE), provider_in_use()
    if audience and provider and not text.startswith("wfd_"):
        return tokens.use_access_token(provider, text, audience, address=address_of(request.META))
    return tokens.use_token(text, address=address_of(request.META))


AUTH = [BearerToken(), django_auth]
"""Tried in this order. Django's check against forged requests (CSRF) belongs to the session alone."""


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the viewer of a request."""
    return evaluated(cast(Viewer, request.viewer))  # type: ignore[attr-defined]


def key_of(request: HttpRequest) -> str | None:
    """Return the idempotency key from the header, None without one. ``Invalid`` if it is too long."""
    key = request.headers.get(HEADER) or None
    if key and len(key) > LONGEST_KEY:
        raise Invalid.at(HEADER, f"At most {LONGEST_KEY} characters")
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
            if now not in {('"' + _strong(one).strip('"').partition(".")[0] + '"') for one in parse_etags(given)}:
                raise Outdated(etag=now)
        yield


def _strong(tag: str) -> str:
    """Return a tag that a proxy or our own compression may have made weak: the value is the same."""
    return tag.removeprefix("W/")


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]

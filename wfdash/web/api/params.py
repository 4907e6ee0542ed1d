"""Parameters that several operations take, the refusal of unknown ones, and answers without the fields of pages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

from django.http import HttpRequest
from ninja import Status
from ninja.parser import Parser
from pydantic import BaseModel, Field

from wfdash.domain.errors import Invalid
from wfdash.records.base import ApiRecord
from wfdash.values.schemas.work import MOST_NODES, has_more_values
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
            raise Invalid([{"loc": [name], "msg": words} for name in unknown])
        if twice := [name for name, values in request.GET.lists() if len(values) > 1]:
            raise Invalid([{"loc": [name], "msg": "Given more than once"} for name in twice])
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

"""Parameters that several operations take, the refusal of unknown ones, and answers without the fields of pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

from django.http import HttpRequest
from ninja import Status
from pydantic import BaseModel, Field

from wfdash.errors import Invalid
from wfdash.long_poll import LONGEST
from wfdash.records.base import ApiRecord

Limit = Annotated[int, Field(ge=1, le=1000)]
Wait = Annotated[int, Field(ge=0, le=LONGEST)]
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
    return [field for name, kind in hints.items() for field in _fields_of(name, kind)]


def _fields_of(name: str, kind: Any) -> list[str]:
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else [name]


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

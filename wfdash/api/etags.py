"""``ETag`` and ``If-Match``: no one replaces what someone else has changed since it was read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from checkpoints.database.storage import write
from wfdash.errors import ConditionMissing, Outdated

ANY = "*"


def etag_of(value: Mapping[str, Any]) -> str:
    """Return the tag of a value: it changes with each of its fields."""
    return f'"{sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]}"'


def with_etag(response: HttpResponse, value: Mapping[str, Any]) -> None:
    """Give a response the tag of the value that it shows."""
    response["ETag"] = etag_of(value)


@contextmanager
def if_match(request: HttpRequest, rows: QuerySet[Any], present: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Run a change in one transaction, if the value is still the one whose tag ``If-Match`` names.

    ``rows``: what to lock, so that no one comes between. ``present`` reads the value. ``Outdated``; without the header
    ``ConditionMissing``.
    """
    given = request.headers.get("If-Match", "")
    if not given:
        present()  # What is not there, or not theirs, is not found.
        raise ConditionMissing
    with write():
        list(rows.select_for_update().values_list("pk", flat=True))
        now = etag_of(present())
        # A proxy or our own compression makes a tag weak; the value is the same.
        if given != ANY and now not in {one.strip().removeprefix("W/") for one in given.split(",")}:
            raise Outdated(etag=now)
        yield

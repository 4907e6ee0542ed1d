"""``Idempotency-Key`` for actions that have none of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from django.http import HttpRequest

from checkpoints.database.storage import write
from checkpoints.records import Json
from wfdash.actions.idempotency import idempotent, previous_result
from wfdash.api.auth import key_of, viewer_of


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

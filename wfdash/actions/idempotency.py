"""Idempotency keys: the same command with the same key, from the same person or token, takes effect once.

The key is stored in the action's own transaction: an action that is refused leaves its key free.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any, TypeVar

from django.db.models import Count, Model
from django.utils import timezone

from checkpoints.database.compiled import insert_if_free
from checkpoints.database.storage import write
from checkpoints.models import IdempotencyKey
from checkpoints.records import Json
from wfdash.access.viewer import Viewer
from wfdash.errors import KeyReused, NotFound

Made = TypeVar("Made", bound=Model)

KEPT = timedelta(days=7)
"""How long a key is remembered. After that the same key is a new one."""
MOST_KEPT = 50_000
"""Keys stored per person: beyond this the oldest are removed early."""


class IdempotentCall:
    """A call under an idempotency key. ``previous_result``: the recorded ids if the key was used before."""

    def __init__(self, previous_result: dict[str, Json] | None = None) -> None:
        self.previous_result = previous_result
        self.recorded: dict[str, Json] = {}

    def record(self, **ids: Json) -> None:
        """Store the ids by which a repeated call finds the same result."""
        self.recorded |= ids


@contextmanager
def idempotent(viewer: Viewer, key: str | None, verb: str, command: Json, **known: Json) -> Iterator[IdempotentCall]:
    """Run a command once per person and key; enter it first in the action's transaction (``write()``). Yields the call.

    If ``call.previous_result`` is not None it was done: return what that names and change nothing. A concurrent second
    call waits for the first. ``KeyReused`` if the key came with another command. Without a key nothing is stored.
    ``known``: ids of what the command will make that are known already; ``record`` adds others.
    """
    if not key:
        yield IdempotentCall()
        return
    row = _key_row(viewer, key, verb, command)
    row.result = known
    if not insert_if_free(row):
        yield IdempotentCall(_stored_result(row))
        return
    call = IdempotentCall()
    yield call
    if call.recorded:
        mine = IdempotencyKey.objects.filter(person=row.person, key=row.key)
        mine.update(result={**known, **call.recorded})


def previous_result(viewer: Viewer, key: str | None, verb: str, command: Json) -> dict[str, Json] | None:
    """Return what was recorded if this command was done already: for work before the transaction. ``KeyReused``."""
    row = _key_row(viewer, key, verb, command) if key else None
    known = IdempotencyKey.objects.filter(person=row.person, key=row.key).exists() if row else False
    return _stored_result(row) if row and known else None


def made_before(model: type[Made], pk: Json) -> Made:
    """Return what an earlier call with the same key has made. ``NotFound`` if it was deleted since."""
    found: Made | None = model._default_manager.filter(pk=pk).first()
    if found is None:
        raise NotFound("What this idempotency key has made was deleted. Use another key to make it again")
    return found


def forget_keys(limit: int = 100) -> int:
    """Remove keys that are older than ``KEPT`` or beyond ``MOST_KEPT``, the oldest first. Returns how many."""
    old = IdempotencyKey.objects.filter(at__lt=timezone.now() - KEPT).order_by("at").values_list("pk", flat=True)
    found = list(old[:limit]) or _beyond(limit)
    if found:
        with write():
            IdempotencyKey.objects.filter(pk__in=found).delete()
    return len(found)


def _beyond(limit: int) -> list[int]:
    """Return the oldest keys of people who have too many."""
    people = IdempotencyKey.objects.values("person").annotate(n=Count("pk")).filter(n__gt=MOST_KEPT).order_by()
    for person, count in people.values_list("person", "n")[:1]:
        oldest = IdempotencyKey.objects.filter(person=person).order_by("at", "pk").values_list("pk", flat=True)
        return list(oldest[: min(limit, count - MOST_KEPT)])
    return []


def _key_row(viewer: Viewer, key: str, verb: str, command: Json) -> IdempotencyKey:
    digest = _digest(key, verb, command)
    # Each token has its own keys: the results of one are not shown to another, which may be narrower.
    own = _hash(f"{key}\n{viewer.token}" if viewer.token else key)
    return IdempotencyKey(person=viewer.name, key=own, verb=verb, digest=digest, at=timezone.now())


def _stored_result(row: IdempotencyKey) -> dict[str, Json]:
    known = IdempotencyKey.objects.get(person=row.person, key=row.key)
    if known.digest != row.digest:
        raise KeyReused(verb=known.verb)
    result: dict[str, Json] = known.result
    return result


def _digest(key: str, verb: str, command: Any) -> str:
    """Return the command's fingerprint. It includes the key, so that values cannot be guessed from the row."""
    return _hash(json.dumps([key, verb, command], sort_keys=True))


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

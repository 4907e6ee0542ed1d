"""Idempotency: the same command with the same key, from the same person, is done once, however often it is sent.

What is kept stands in the verb's own transaction: a verb that is refused leaves its key free.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.models import IdempotencyKey
from checkpoints.orm import write
from checkpoints.records import Json
from wfdash.access import Viewer
from wfdash.errors import KeyReused

KEPT = timedelta(days=7)
"""For so long a key is known. Afterwards the same key is a new one."""


class Deed:
    """What a verb does under a key. ``before``: what was kept when it was done already, and is not to be done again."""

    def __init__(self, before: dict[str, Json] | None = None) -> None:
        self.before = before
        self.kept: dict[str, Json] = {}

    def keep(self, **ids: Json) -> None:
        """Keep what came of it: the ids by which the same result is found again."""
        self.kept |= ids


@contextmanager
def once(viewer: Viewer, key: str | None, verb: str, command: Json) -> Iterator[Deed]:
    """Do a command once per person and key; enter it first in the verb's transaction (``write()``).

    If ``deed.before`` is not None it was done: return what that names and change nothing. Two at once: the second
    waits for the first. ``KeyReused`` if the key came with another command. Without a key nothing is kept.
    """
    if not key:
        yield Deed()
        return
    row = _row(viewer, key, verb, command)
    if not _claim(row):
        yield Deed(_before(row))
        return
    deed = Deed()
    yield deed
    if deed.kept:
        IdempotencyKey.objects.filter(pk=row.pk).update(result=deed.kept)


def recall(viewer: Viewer, key: str | None, verb: str, command: Json) -> dict[str, Json] | None:
    """Return what was kept if this command was done already: for what comes before the transaction. ``KeyReused``."""
    row = _row(viewer, key, verb, command) if key else None
    known = IdempotencyKey.objects.filter(person=row.person, key=row.key).exists() if row else False
    return _before(row) if row and known else None


def forget_keys(limit: int = 100) -> int:
    """Remove keys older than ``KEPT``, the oldest first; returns how many."""
    old = IdempotencyKey.objects.filter(at__lt=timezone.now() - KEPT).order_by("at").values_list("pk", flat=True)
    found = list(old[:limit])
    if found:
        with write():
            IdempotencyKey.objects.filter(pk__in=found).delete()
    return len(found)


def _row(viewer: Viewer, key: str, verb: str, command: Json) -> IdempotencyKey:
    digest = _digest(key, verb, command)
    return IdempotencyKey(person=viewer.name, key=_hash(key), verb=verb, digest=digest, at=timezone.now())


def _claim(row: IdempotencyKey) -> bool:
    """Take the key, or say that it is taken; waits for whoever is about to."""
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def _before(row: IdempotencyKey) -> dict[str, Json]:
    known = IdempotencyKey.objects.get(person=row.person, key=row.key)
    if known.digest != row.digest:
        raise KeyReused(verb=known.verb)
    result: dict[str, Json] = known.result
    return result


def _digest(key: str, verb: str, command: Any) -> str:
    """Return the command's fingerprint. The key is in it: nobody who reads the row can guess at values."""
    return _hash(json.dumps([key, verb, command], sort_keys=True))


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

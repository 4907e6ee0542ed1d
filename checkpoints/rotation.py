"""Sealing again, with the first key, whatever another key sealed or none. May be stopped and run again at any time.

The server may go on meanwhile, as long as it has all the keys too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, models

from checkpoints.chunks import digest
from checkpoints.fields import Held, SealedJsonField, SealedTextField, current_sealer
from checkpoints.models import Chunk
from checkpoints.orm import write
from checkpoints.seal import sealed_in

PAGE = 200
"""Rows per transaction: what a commit may have to wait for."""


def rotate(using: str = DEFAULT_DB_ALIAS) -> dict[str, int]:
    """Seal everything with the first key; returns how many rows of each table were sealed again.

    ``Locked`` if something does not open with the keys there are: what came before it stays done.
    """
    counts = {model._meta.model_name or "": rotate_rows(model, using) for model in sealed_tables()}
    return {**counts, "chunk": rotate_chunks(using)}


def rotate_rows(model: type[models.Model], using: str) -> int:
    """Seal a table's documents again."""
    columns = sealed_columns(model)
    names = dict.fromkeys(["pk", *(name for column in columns for name in column.row), *(c.name for c in columns)])
    changed, last = 0, None
    while True:
        with write(using):
            page = list(page_of(model, using, last).values(*names))
            for row in page:
                changes = {column.name: resealed(column, row) for column in columns if is_stale(row[column.name])}
                if changes:
                    changed += model._default_manager.using(using).filter(pk=row["pk"]).update(**changes)
        if len(page) < PAGE:
            return changed
        last = page[-1]["pk"]


def sealed_tables() -> list[type[models.Model]]:
    """Return every table that holds content."""
    return [model for model in apps.get_app_config("checkpoints").get_models() if sealed_columns(model)]


def sealed_columns(model: type[models.Model]) -> list[Any]:
    """Return the columns that are encrypted where there are keys."""
    return [field for field in model._meta.concrete_fields if isinstance(field, SealedJsonField | SealedTextField)]


def page_of(model: type[models.Model], using: str, last: Any) -> models.QuerySet[Any]:
    """Return the next rows by primary key, locked."""
    rows = model._default_manager.using(using).select_for_update().order_by("pk")
    return (rows if last is None else rows.filter(pk__gt=last))[:PAGE]


def is_stale(stored: Any) -> bool:
    """Say whether a stored value is not sealed by the first key."""
    if stored is None:
        return False
    text = sealed_in(stored.document) if isinstance(stored, Held) else ""
    return not current_sealer().is_current(text or "")


def resealed(column: Any, row: dict[str, Any]) -> Any:
    """Return what to store instead."""
    place = [str(row[name]) for name in column.row]
    stored = row[column.name]
    return column.sealed(column.open_held(stored if isinstance(stored, Held) else Held(stored), *place), *place)


def rotate_chunks(using: str) -> int:
    """Seal the chunks again, under their new names."""
    changed, last = 0, None
    while True:
        with write(using):
            page = list(page_of(Chunk, using, last).values_list("pk", "family", "hash", "data"))
            changed += sum(rotate_chunk(using, *row) for row in page)
        if len(page) < PAGE:
            return changed
        last = page[-1][0]


def rotate_chunk(using: str, pk: int, family: str, name: str, data: Iterable[int]) -> bool:
    """Seal one chunk again; where it is stored under its new name already, the old one goes."""
    sealer, stored = current_sealer(), bytes(data)
    if sealer.is_current_chunk(stored):
        return False
    plain = sealer.open_chunk(stored, family, name)
    key = digest(plain)
    rows = Chunk.objects.using(using).filter(family=family)
    if rows.filter(hash=sealer.name(family, key)).exists():
        rows.filter(pk=pk).delete()
    else:
        rows.filter(pk=pk).update(hash=sealer.name(family, key), data=sealer.seal_chunk(plain, family, key))
    return True

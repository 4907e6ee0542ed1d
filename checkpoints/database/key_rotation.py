"""Key rotation: encrypts everything with the first key. It may be interrupted and run again.

A server may run at the same time, as long as it has all the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models

from checkpoints.content.chunks import digest
from checkpoints.content.encryption import Locked, encrypted_text_in
from checkpoints.database.alias import alias
from checkpoints.database.installation_key import keep_first_key
from checkpoints.database.storage import write
from checkpoints.errors import Damaged
from checkpoints.models import Chunk
from checkpoints.models.fields import EncryptedJsonField, EncryptedTextField, StoredDocument, current_encryptor

PAGE = 200
"""Rows per transaction: a commit may have to wait for these."""


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """What a rotation did: table -> how many rows, and the rows that it had to leave, each with the reason."""

    counts: dict[str, int]
    left: list[str]


def rotate(using: str | None = None) -> Rotation:
    """Encrypt everything with the first key. What cannot be decrypted is left as it is, and named.

    Once nothing was left, the other keys are no longer needed: the installation forgets them.
    """
    using = using or alias()
    left: list[str] = []
    counts = {model._meta.model_name or "": rotate_rows(model, using, left) for model in encrypted_tables()}
    counts["chunk"] = rotate_chunks(using, left)
    if not left:
        keep_first_key(using)
    return Rotation(counts=counts, left=left)


def rotate_rows(model: type[models.Model], using: str, left: list[str]) -> int:
    """Re-encrypt a table's documents; returns how many rows changed, and adds those that it cannot read to ``left``."""
    columns = encrypted_columns(model)
    names = dict.fromkeys(["pk", *(name for column in columns for name in column.row), *(c.name for c in columns)])
    changed, last = 0, None
    while True:
        with write(using):
            page = list(page_of(model, using, last).values(*names))
            for row in page:
                changes = {}
                for column in columns:
                    with noting(left, f"{model._meta.model_name} {row['pk']} {column.name}"):
                        if is_stale(row[column.name]):
                            changes[column.name] = reencrypted(column, row)
                if changes:
                    changed += model._default_manager.using(using).filter(pk=row["pk"]).update(**changes)
        if len(page) < PAGE:
            return changed
        last = page[-1]["pk"]


def encrypted_tables() -> list[type[models.Model]]:
    """Return every table with encrypted columns."""
    ours = (config for config in apps.get_app_configs() if config.name.partition(".")[0] == "checkpoints")
    return [model for config in ours for model in config.get_models() if encrypted_columns(model)]


def encrypted_columns(model: type[models.Model]) -> list[Any]:
    """Return the columns that are encrypted where there are keys."""
    return [
        field for field in model._meta.concrete_fields if isinstance(field, EncryptedJsonField | EncryptedTextField)
    ]


def page_of(model: type[models.Model], using: str, last: Any) -> models.QuerySet[Any]:
    """Return the next rows by primary key, locked."""
    rows = model._default_manager.using(using).select_for_update().order_by("pk")
    return (rows if last is None else rows.filter(pk__gt=last))[:PAGE]


def is_stale(stored: Any) -> bool:
    """Return whether a stored value is not encrypted with the first key."""
    if stored is None:
        return False
    text = encrypted_text_in(stored.document) if isinstance(stored, StoredDocument) else ""
    return not current_encryptor().is_current(text or "")


def reencrypted(column: Any, row: dict[str, Any]) -> Any:
    """Return the value encrypted with the first key."""
    place = [str(row[name]) for name in column.row]
    stored = row[column.name]
    return column.encrypted(
        column.decrypt_stored(stored if isinstance(stored, StoredDocument) else StoredDocument(stored), *place), *place
    )


@contextmanager
def noting(left: list[str], row: str) -> Iterator[None]:
    """Return a context manager that notes a row whose content cannot be decrypted, and why."""
    try:
        yield
    except (Damaged, Locked) as error:
        left.append(f"{row}: {error}")


def rotate_chunks(using: str, left: list[str]) -> int:
    """Re-encrypt the chunks under their new names; returns how many changed."""
    changed, last = 0, None
    while True:
        with write(using):
            page = list(page_of(Chunk, using, last).values_list("pk", "family", "hash", "data"))
            for pk, family, name, data in page:
                with noting(left, f"chunk {name} of {family}"):
                    changed += rotate_chunk(using, pk, family, name, data)
        if len(page) < PAGE:
            return changed
        last = page[-1][0]


def rotate_chunk(using: str, pk: int, family: str, name: str, data: Iterable[int]) -> bool:
    """Re-encrypt one chunk and return whether it changed; if its new name is stored already, the old row is removed."""
    encryptor, stored = current_encryptor(), bytes(data)
    if encryptor.is_current_chunk(stored):
        return False
    plain = encryptor.decrypt_chunk(stored, family, name)
    key = digest(plain)
    rows = Chunk.objects.using(using).filter(family=family)
    if rows.filter(hash=encryptor.name(family, key)).exists():
        rows.filter(pk=pk).delete()
    else:
        rows.filter(pk=pk).update(hash=encryptor.name(family, key), data=encryptor.encrypt_chunk(plain, family, key))
    return True

"""The keys of an installation: a process with others is refused before anything is served or written.

The secret key, of all processes on one PostgreSQL, signs sessions and links, and the audit where that has no key of its
own. A process with another one would sign people out at every second request, and refuse links that the others sent.
The keys that content is encrypted with are those of a database: a process without one of them would write what others
cannot read, or read nothing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, models
from django.db.models import Model

from checkpoints.content.chunks import digest
from checkpoints.content.encryption import encrypted_text_in, key_of
from checkpoints.database.alias import alias, connection
from checkpoints.database.storage import write
from checkpoints.errors import Unreadable
from checkpoints.models import AuditEntry, Chunk, HumanRequest, Run
from checkpoints.models.fields import EncryptedJsonField, EncryptedTextField, StoredDocument, current_encryptor
from checkpoints.models.operations import Installation
from checkpoints.records import frozen

# Key rotation: encrypts everything with the first key. It may be interrupted and run again.

PAGE = 200
"""Rows per transaction: a commit may have to wait for these."""


@frozen
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
    except Unreadable as error:
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


# The check of the keys, at the start of each process and command.

REFUSAL = (
    "This database was used with another secret key. Sessions, links and the audit are signed with it, so all servers "
    "and workers need the same: set WFDASH_SECRET_KEY (or WFDASH_SECRET_KEY_FILE) to that of the others, which is "
    "'secret_key' in their data directory unless it is set there. To change the key, start with the new one and the "
    "former one in WFDASH_SECRET_KEY_FALLBACKS; if it is lost, run 'wfdash migrate --new-secret-key'"
)
CONTENT: tuple[tuple[type[Model], tuple[str, ...]], ...] = (
    (AuditEntry, ("facts",)),
    (HumanRequest, ("card", "answer_schema")),
    (Run, ("input", "output", "error")),
)
"""Tables whose content is looked at, and their columns."""
SAMPLE = 3
"""Rows of each kind, from either end, whose keys an installation is known by that has not noted them yet."""
COST = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
"""Of the hash: a key that a person thought up must not be guessed from a copy of the database."""


def check_keys(*, new: bool = False) -> bool:
    """Remember the keys by which this database is used first; ``ImproperlyConfigured`` for others later. Returns
    whether this secret key took the place of another.

    A secret key that has the remembered one as a fallback takes its place, as does any if ``new``. SQLite's data
    directory has a secret key of its own, so none is compared there. All keys that content is encrypted with are
    needed, until ``keep_first_key``.
    """
    with write():
        row, _ = Installation.objects.select_for_update().get_or_create(pk=1)
        replaced = connection().vendor != "sqlite" and _check_secret(row, new=new)
        needed = row.content_keys or keys_of_content()
        if problem := current_encryptor().problem(needed):
            raise ImproperlyConfigured(problem)
        known = sorted({*needed, current_encryptor().first})
        if known != row.content_keys:
            Installation.objects.filter(pk=1).update(content_keys=known)
    return replaced


def refuse_other_keys(kind: type[Exception] = ImproperlyConfigured) -> None:
    """Raise ``kind`` if this process lacks a key that content is encrypted with. Changes nothing; a database that
    cannot be read is left to what reads it next.
    """
    with contextlib.suppress(DatabaseError):
        row = Installation.objects.filter(pk=1).first()
        if problem := current_encryptor().problem((row and row.content_keys) or keys_of_content()):
            raise kind(problem)


def content_flaws(sample: int = SAMPLE, *, oldest: bool = True) -> list[str]:
    """Return why content cannot be read here: keys that are missing, and rows among the newest, and the oldest, of each
    kind whose content does not open. One or two queries a kind.
    """
    row = Installation.objects.filter(pk=1).first()
    problem = current_encryptor().problem((row and row.content_keys) or ())
    found = [problem] if problem else []
    for model, columns in CONTENT:
        rows = model._default_manager.order_by("pk")
        for one in {one.pk: one for one in (*rows[: sample * oldest], *rows.reverse()[:sample])}.values():
            for column in columns:
                try:
                    getattr(one, column)
                except Unreadable as error:
                    found.append(str(error))
    return found


def keep_first_key(using: str) -> None:
    """Forget all keys but the first: nothing is encrypted with another one."""
    with write(using):
        first = [current_encryptor().first]
        Installation.objects.using(using).update_or_create(pk=1, defaults={"content_keys": first})


def keys_of_content() -> set[str]:
    """Return the ids of the keys that the oldest and the newest content is encrypted with."""
    found = set()
    for model, (column, *_) in CONTENT:
        rows = model._default_manager.filter(**{f"{column}__isnull": False}).values_list(column, flat=True)
        for value in (*rows.order_by("pk")[:SAMPLE], *rows.order_by("-pk")[:SAMPLE]):
            text = encrypted_text_in(value.document) if isinstance(value, StoredDocument) else None
            found.add(key_of(text or ""))
    return found


def _check_secret(row: Installation, *, new: bool) -> bool:
    if row.key and matches(row.key, settings.SECRET_KEY):
        return False
    if row.key and not new and not any(matches(row.key, former) for former in settings.SECRET_KEY_FALLBACKS):
        raise ImproperlyConfigured(REFUSAL)
    Installation.objects.filter(pk=1).update(key=fingerprint(settings.SECRET_KEY))
    return bool(row.key)


def fingerprint(secret: str, salt: bytes | None = None) -> str:
    """Return ``salt$hash`` of a key."""
    salt = os.urandom(16) if salt is None else salt
    made = hashlib.scrypt(secret.encode(), salt=salt, **COST)
    return f"{base64.b64encode(salt).decode()}${base64.b64encode(made).decode()}"


def matches(stored: str, secret: str) -> bool:
    """Return whether the fingerprint is this key's."""
    salt = base64.b64decode(stored.partition("$")[0])
    return hmac.compare_digest(stored, fingerprint(secret, salt))

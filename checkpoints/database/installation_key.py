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

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.db.models import Model

from checkpoints.content.encryption import Locked, encrypted_text_in, key_of
from checkpoints.database.alias import connection
from checkpoints.database.storage import write
from checkpoints.errors import Damaged
from checkpoints.models import AuditEntry, HumanRequest, Run
from checkpoints.models.fields import StoredDocument, current_encryptor
from checkpoints.models.operations import Installation

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
                except (Damaged, Locked) as error:
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

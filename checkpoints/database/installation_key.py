"""One secret key for all processes on one PostgreSQL: another one is refused before anything is served.

It signs sessions and links, and the audit where that has no key of its own. A process with another key would sign
people out at every second request, and refuse links that the others sent.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints.database.alias import connection
from checkpoints.database.storage import write
from checkpoints.models.operations import Installation

REFUSAL = (
    "This database was used with another secret key. Sessions, links and the audit are signed with it, so all servers "
    "and workers need the same: set WFDASH_SECRET_KEY (or WFDASH_SECRET_KEY_FILE) to that of the others, which is "
    "'secret_key' in their data directory unless it is set there. To change the key, start with the new one and the "
    "former one in WFDASH_SECRET_KEY_FALLBACKS; if it is lost, run 'wfdash migrate --new-secret-key'"
)
COST = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
"""Of the hash: a key that a person thought up must not be guessed from a copy of the database."""


def check_key(*, new: bool = False) -> bool:
    """Remember the secret key by which this database is used first; ``ImproperlyConfigured`` for another one later.
    Returns whether this one took the place of another.

    One that has the remembered one as a fallback takes its place, as does any if ``new``. SQLite's data directory has a
    key of its own, so nothing is compared there.
    """
    if connection().vendor == "sqlite":
        return False
    with write():
        row, made = Installation.objects.select_for_update().get_or_create(
            pk=1, defaults={"key": fingerprint(settings.SECRET_KEY)}
        )
        if made or matches(row.key, settings.SECRET_KEY):
            return False
        if not new and not any(matches(row.key, former) for former in settings.SECRET_KEY_FALLBACKS):
            raise ImproperlyConfigured(REFUSAL)
        Installation.objects.filter(pk=1).update(key=fingerprint(settings.SECRET_KEY))
        return True


def fingerprint(secret: str, salt: bytes | None = None) -> str:
    """Return ``salt$hash`` of a key."""
    salt = os.urandom(16) if salt is None else salt
    made = hashlib.scrypt(secret.encode(), salt=salt, **COST)
    return f"{base64.b64encode(salt).decode()}${base64.b64encode(made).decode()}"


def matches(stored: str, secret: str) -> bool:
    """Return whether the fingerprint is this key's."""
    salt = base64.b64decode(stored.partition("$")[0])
    return hmac.compare_digest(stored, fingerprint(secret, salt))

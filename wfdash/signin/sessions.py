"""Sessions stored under the hash of their key: a copy of the table, or of a backup, cannot be used to sign in."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.sessions.backends import db
from django.utils import timezone

from wfdash import pubsub


def stored_key(key: str) -> str:
    """Return the key a session is stored under: 160 bits of the hash, the length of the column."""
    return sha256(key.encode()).hexdigest()[:40]


def _key_of(stored: str) -> Any:
    return get_user_model()._meta.pk.to_python(stored)


class SessionStore(db.SessionStore):
    """Django's own store; only the browser has the key."""

    def _get_session_from_db(self) -> Any:
        try:
            key = stored_key(str(self.session_key))
            return self.model.objects.get(session_key=key, expire_date__gt=timezone.now())
        except self.model.DoesNotExist:
            self._session_key = None
            return None

    async def _aget_session_from_db(self) -> Any:
        return await sync_to_async(self._get_session_from_db)()

    def flush(self) -> None:
        """Delete this session, and make the person's sockets check their session again."""
        user = self.get(SESSION_KEY)
        super().flush()
        if user is not None:
            pubsub.rights_changed.publish(_key_of(user))

    def exists(self, session_key: str) -> bool:
        """Return whether there is a session with this key."""
        return super().exists(stored_key(session_key))

    async def aexists(self, session_key: str) -> bool:
        """Return the same, asynchronously."""
        return await super().aexists(stored_key(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        """Return the row to store."""
        row = super().create_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    async def acreate_model_instance(self, data: dict[str, Any]) -> Any:
        """Return the same, asynchronously."""
        row = await super().acreate_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        """Delete this session, or the one with that key."""
        key = session_key or self.session_key
        if key is not None:
            super().delete(stored_key(key))

    async def adelete(self, session_key: str | None = None) -> None:
        """Delete the same, asynchronously."""
        await sync_to_async(self.delete)(session_key)

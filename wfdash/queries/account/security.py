"""What a person's own account page shows: password, sessions, and whom the sign-in provider knows them as."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from wfdash.access.viewer import Viewer
from wfdash.signin import second_factor
from wfdash.signin.identities import identity_row
from wfdash.signin.open_sessions import OpenSession, sessions_of


@dataclass(frozen=True, kw_only=True)
class OwnAccount:
    """A person's own account. ``code``: they have no password, and a second factor that a first one needs;
    ``passkeys``: that may be a passkey.

    ``connected``: since when they can sign in at the provider; None where they cannot.
    """

    password: bool
    code: bool
    passkeys: bool
    sessions: tuple[OpenSession, ...]
    connected: datetime | None = None

    @property
    def others(self) -> int:
        """Return how many sessions there are besides this one."""
        return sum(not session.here for session in self.sessions)


def own_account(viewer: Viewer, key: str | None) -> OwnAccount:
    """Return a person's own account (four queries). ``key``: of the session that asks."""
    has = bool(viewer.user.has_usable_password())
    code = not has and second_factor.is_on(viewer.user)
    row = identity_row(viewer.user)
    sessions = tuple(sessions_of(viewer.user.pk, key))
    passkeys = code and second_factor.passkeys(user=viewer.user).exists()
    return OwnAccount(password=has, code=code, passkeys=passkeys, sessions=sessions, connected=row and row.date_joined)

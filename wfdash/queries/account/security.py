"""What a person's own account page shows: whether they have a password, and their sessions."""

from __future__ import annotations

from dataclasses import dataclass

from wfdash.access.viewer import Viewer
from wfdash.signin import second_factor
from wfdash.signin.open_sessions import OpenSession, sessions_of


@dataclass(frozen=True, kw_only=True)
class OwnAccount:
    """A person's own account. ``code``: they have no password, and a second factor that a first one needs."""

    password: bool
    code: bool
    sessions: tuple[OpenSession, ...]

    @property
    def others(self) -> int:
        """Return how many sessions there are besides this one."""
        return sum(not session.here for session in self.sessions)


def own_account(viewer: Viewer, key: str | None) -> OwnAccount:
    """Return a person's own account (two queries). ``key``: of the session that asks."""
    has = bool(viewer.user.has_usable_password())
    code = not has and second_factor.is_on(viewer.user)
    return OwnAccount(password=has, code=code, sessions=tuple(sessions_of(viewer.user.pk, key)))

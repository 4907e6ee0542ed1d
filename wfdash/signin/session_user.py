"""The signed-in user of a request, read together with the session wherever this process knows whose session it is."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from django.contrib.auth import get_user
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from checkpoints.models.user_model import User
from wfdash.access.viewer import RightsRows, rights_rows

_session: ContextVar[Any] = ContextVar("wfdash_session", default=None)
"""The session that is being looked at."""


class SignedInUser(AuthenticationMiddleware):
    """Django's middleware, except that ``request.user`` needs no query of its own after the session's."""

    def process_request(self, request: HttpRequest) -> None:
        """Attach the user, read when first used."""
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: user_of(request))  # type: ignore[assignment]


def user_of(request: HttpRequest) -> User | AnonymousUser:
    """Return who is signed in, by Django's rules (backend, session hash, active account), and keep them where Django's
    own middleware does: a request that has someone there already is theirs.
    """
    given: Any = request
    if not hasattr(given, "_cached_user"):
        token = _session.set(request.session)
        try:
            given._cached_user = get_user(request)
        finally:
            _session.reset(token)
    found: User | AnonymousUser = given._cached_user
    return found


def rights_read_with(request: HttpRequest, user: User | AnonymousUser) -> RightsRows | None:
    """Return this user's rights if the request's session was read together with them; None if not."""
    session: Any = getattr(request, "session", None)
    together = user.is_authenticated and getattr(session, "user_row", None) is user
    return rights_rows(session.rights_text) if together else None


def read_with_session(user_id: Any) -> User | None:
    """Return this user if the session that is being looked at was read together with them."""
    user: User | None = getattr(_session.get(), "user_row", None)
    return user if user is not None and user.pk == user_id else None

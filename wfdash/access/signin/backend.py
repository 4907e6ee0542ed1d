"""The only authentication backend: everywhere, attempts are limited and few passwords are checked at a time.

Checking a password is expensive on purpose and open to anyone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from checkpoints.models.user_model import User
from wfdash.access.signin import attempt_limits
from wfdash.access.signin.attempt_limits import address_of
from wfdash.access.signin.sessions import read_with_session
from wfdash.domain.errors import Busy

CHECKING = 2
WAITING = 2
"""Callers beyond so many waiting ones are refused at once. Together half of the threads that serve pages."""
WAIT_SECONDS = 2.0
"""Seconds a caller waits at most."""


class Slots:
    """A semaphore with a limited number of waiting callers."""

    def __init__(self, *, working: int = CHECKING, waiting: int = WAITING, seconds: float = WAIT_SECONDS) -> None:
        self._entered = threading.BoundedSemaphore(working + waiting)
        self._working = threading.BoundedSemaphore(working)
        self._seconds = seconds

    @contextmanager
    def take(self) -> Iterator[None]:
        """Hold one of the slots; ``Busy`` if none becomes free soon."""
        if not self._entered.acquire(blocking=False):
            raise _busy()
        try:
            if not self._working.acquire(timeout=self._seconds):
                raise _busy()
            try:
                yield
            finally:
                self._working.release()
        finally:
            self._entered.release()


def _busy() -> Busy:
    return Busy("Too many sign-ins at the moment. Try again in a few seconds.", retry_after=3)


slots = Slots()
"""The slots of this process."""


NAME, PASSWORD = 150, 1000
"""Maximum lengths in characters; longer ones match no user."""


class PasswordBackend(ModelBackend):
    """Django's own users and passwords, unless ``WFDASH_PASSWORDS`` is 0. Raises ``TooManyTries`` and ``Busy``."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> Any:
        """Return the user with this name and password, None if they do not match."""
        if not settings.WFDASH_PASSWORDS:
            return None
        if not username or password is None or len(username) > NAME or len(password) > PASSWORD:
            return None
        address = address_of(getattr(request, "META", {}))
        counted = attempt_limits.for_password(username, address, attempt_limits.known_browser(request, username))
        attempt_limits.check(counted)
        with slots.take():
            attempt_limits.charge(counted)
            user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is not None:
            attempt_limits.forgive(counted)
        return user

    def get_user(self, user_id: Any) -> Any:
        """Return the user of a session, with one query unless they were read with it; None if they may not sign in,
        however the session was started.
        """
        known = read_with_session(user_id)
        user = known or User.objects.select_related("service_account").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    def user_can_authenticate(self, user: Any) -> bool:
        """Return whether an account may be signed in: it is active, and no service account."""
        return super().user_can_authenticate(user) and not hasattr(user, "service_account")

    async def aauthenticate(self, request: HttpRequest | None, *args: Any, **kwargs: Any) -> Any:
        """Return the same, asynchronously; Django's own version would bypass the limits."""
        return await sync_to_async(self.authenticate)(request, *args, **kwargs)

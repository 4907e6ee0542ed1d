"""One's own password and sessions: set or change the password, end sessions."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth import password_validation
from django.core.exceptions import ValidationError
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models.user_model import User
from wfdash.access.administration import refuse_token
from wfdash.access.signin import attempt_limits, second_factor
from wfdash.access.signin.backend import PASSWORD
from wfdash.access.signin.links import revoke_links
from wfdash.access.signin.open_sessions import end_sessions
from wfdash.access.signin.password_slots import slots
from wfdash.access.viewer import Viewer
from wfdash.actions import audit
from wfdash.actions.audit import acting
from wfdash.domain.errors import Invalid, NotFound, WrongState

WRONG = "Wrong password"
JUST_NOW = timedelta(minutes=10)
NO_PASSWORDS = "No one signs in by password here. Use the sign-in provider, or a one-time link"


def set_password(
    viewer: Viewer,
    new: str,
    *,
    repeated: str,
    current: str = "",
    code: str = "",
    passkey: str = "",
    session: str | None = None,
) -> User:
    """Give one's own account a password, or another one; return the user as stored.

    ``current``: the password so far, if there is one; without one, ``code`` or ``passkey`` if a second factor is on: a
    forgotten browser is not enough. All other sessions and unused sign-in links end; ``session`` is the key of the one
    that stays. ``Invalid`` with errors per field; ``TooManyTries``, ``Busy``; ``WrongState`` where passwords are off.
    """
    refuse_token(viewer)
    if not settings.WFDASH_PASSWORDS:
        raise WrongState(NO_PASSWORDS)
    user = User.objects.get(pk=viewer.user.pk)
    if new != repeated:
        raise Invalid([{"loc": ["repeated"], "msg": "The two passwords differ"}])
    _check_strength(new, user)
    check_identity(user, current, code, passkey)
    with write(), acting(viewer, ""):
        user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        user.set_password(new)
        user.save(update_fields=["password"])
        revoke_links(user)
        end_sessions(user.pk, but=session)
    return user


def end_own_session(viewer: Viewer, session_id: str) -> None:
    """End one of one's own sessions by its id. ``NotFound``."""
    refuse_token(viewer)
    with write():
        if not session_id or end_sessions(viewer.user.pk, only=session_id) != 1:
            raise NotFound("Session not found, or already ended")
        audit.record(viewer, "end sessions", facts={"user": viewer.name, "sessions": 1})


def end_other_sessions(viewer: Viewer, session: str | None) -> int:
    """End all of one's own sessions but the one with this key; return how many there were."""
    refuse_token(viewer)
    with write():
        count = end_sessions(viewer.user.pk, but=session)
        audit.record(viewer, "end sessions", facts={"user": viewer.name, "sessions": count})
    return count


def _check_strength(new: str, user: User) -> None:
    if len(new) > PASSWORD:
        raise Invalid([{"loc": ["new"], "msg": f"At most {PASSWORD} characters"}])
    try:
        password_validation.validate_password(new, user)
    except ValidationError as error:
        raise Invalid([{"loc": ["new"], "msg": " ".join(error.messages).rstrip(".")}]) from None


def may_add_passkey(
    viewer: Viewer, *, current: str = "", code: str = "", passkey: str = "", since: datetime | None = None
) -> bool:
    """Check that it is the person who adds a passkey; return whether they have a second factor.

    A passkey replaces password and code, so both are asked for; of someone with neither, a sign-in (``since``) a moment
    ago. ``Invalid`` with errors per field; ``TooManyTries``, ``Busy``, ``WrongState``.
    """
    refuse_token(viewer)
    user = User.objects.get(pk=viewer.user.pk)
    has_password, on = user.has_usable_password(), second_factor.is_on(user)
    if has_password:
        check_identity(user, current, "")
    if on:
        second_factor.check(user, code, passkey)
    if not (has_password or on or (since is not None and timezone.now() - since < JUST_NOW)):
        raise WrongState("Sign out and in again first: you have no password and no code to prove that it is you")
    return on


def check_identity(user: User, current: str, code: str, passkey: str = "") -> None:
    """Check the password so far, or the second factor where there is no password. Wrong ones are counted."""
    if not user.has_usable_password():
        if second_factor.is_on(user):
            second_factor.check(user, code, passkey)
        return
    counted = attempt_limits.for_own_password(user.pk)
    attempt_limits.check(counted)
    with slots.take():
        attempt_limits.charge(counted)
        right = len(current) <= PASSWORD and user.check_password(current)
    if not right:
        raise Invalid([{"loc": ["current"], "msg": WRONG}])
    attempt_limits.forgive(counted)

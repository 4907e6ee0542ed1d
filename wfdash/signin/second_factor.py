"""The second factor: a code of an authenticator app (TOTP, RFC 6238), or a recovery code. Each works once."""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from hashlib import sha256

import pyotp
from django.conf import settings
from django.dispatch import Signal
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import RecoveryCode, SecondFactor
from checkpoints.models.user_model import User
from wfdash.errors import Invalid, WrongState
from wfdash.signin import attempt_limits

MISTYPED = "Wrong code. Check your device's clock and enter the current code"
ISSUER = "wfdash"
STEP = 30
CODES = 10
SESSION_MARK = "wfdash_second_factor"
"""Set in a session that was started, or continued, with a second factor."""
WRONG = "Wrong or already used code. Wait for the next one or use a recovery code"

changed = Signal()
"""Sent inside the transaction of a change, with ``user`` and ``act``: turn on, renew recovery codes, use recovery code.
Django's own signals report deleted rows.
"""


def is_on(user: User) -> bool:
    """Return whether this person is asked for a code at sign-in (one query)."""
    return SecondFactor.objects.filter(user=user, confirmed__isnull=False).exists()


def is_required() -> bool:
    """Return whether everyone must use one (``WFDASH_REQUIRE_SECOND_FACTOR``)."""
    return bool(settings.WFDASH_REQUIRE_SECOND_FACTOR)


def begin(user: User) -> str:
    """Create a secret for an authenticator, without effect until ``confirm``, and return the id of the set-up.

    Only the session that started a set-up can continue it: otherwise someone else who knows the password could start
    one, keep the secret, and have its owner confirm it. ``WrongState`` if a second factor is in use.
    """
    with write():
        SecondFactor.objects.filter(user=user, confirmed__isnull=True).delete()
        if is_on(user):
            raise WrongState("The second factor is on. Turn it off before setting up another")
        row = SecondFactor.objects.create(user=user, secret=pyotp.random_base32(), created=timezone.now())
    return _hash(row.secret)


def cancel(user: User) -> None:
    """Delete a secret that was not confirmed."""
    SecondFactor.objects.filter(user=user, confirmed__isnull=True).delete()


def pending_secret(user: User, setup: str) -> str:
    """Return the secret of a set-up that is to be confirmed, empty if there is none any more."""
    row = SecondFactor.objects.filter(user=user, confirmed__isnull=True).first()
    return row.secret if row and hmac.compare_digest(_hash(row.secret), setup) else ""


def provisioning_uri(user: User, secret: str) -> str:
    """Return the URI that an authenticator app reads from the QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=user.get_username(), issuer_name=ISSUER)


def confirm(user: User, code: str, setup: str) -> list[str]:
    """Turn it on with a first code. Returns the recovery codes, shown only now. ``Invalid`` at ``code``."""
    counted = attempt_limits.for_code(user.pk)
    attempt_limits.charge(counted)
    with write():
        step = _step_of(secret, code) if (secret := pending_secret(user, setup)) else None
        waiting = SecondFactor.objects.filter(user=user, confirmed__isnull=True)
        if step is None or waiting.update(confirmed=timezone.now(), last_step=step) != 1:
            raise Invalid([{"loc": ["code"], "msg": MISTYPED}])
        changed.send(SecondFactor, user=user, act="turn on")
        codes = _new_codes(user)
    attempt_limits.forgive(counted)
    return codes


def check(user: User, code: str) -> None:
    """Accept a code of the authenticator or a recovery code, once. ``Invalid`` at ``code``, ``TooManyTries``."""
    counted = attempt_limits.for_code(user.pk)
    attempt_limits.charge(counted)
    with write():
        if not (_use_step(user, code) or _use_recovery(user, code)):
            raise Invalid([{"loc": ["code"], "msg": WRONG}])
    attempt_limits.forgive(counted)


def renew_codes(user: User, code: str) -> list[str]:
    """Return new recovery codes; the old ones end. ``Invalid`` at ``code``."""
    check(user, code)
    with write():
        changed.send(SecondFactor, user=user, act="renew recovery codes")
        return _new_codes(user)


def turn_off(user: User, code: str) -> None:
    """Turn it off for this person. ``Invalid`` at ``code``; ``WrongState`` where everyone must have one."""
    if is_required():
        raise WrongState("A second factor is required")
    check(user, code)
    reset(user)


def reset(user: User) -> bool:
    """Remove it for a person who lost it. Returns whether there was one. The caller checks the permission."""
    with write():
        RecoveryCode.objects.filter(user=user).delete()
        removed, _ = SecondFactor.objects.filter(user=user).delete()
    return bool(removed)


def codes_left(user: User) -> int:
    """Return how many recovery codes are unused."""
    return RecoveryCode.objects.filter(user=user, used__isnull=True).count()


def _use_step(user: User, code: str) -> bool:
    row = SecondFactor.objects.filter(user=user, confirmed__isnull=False).first()
    step = _step_of(row.secret, code) if row else None
    # Conditional, so that of two at once with the same code one is refused.
    used = step is not None and SecondFactor.objects.filter(user=user, last_step__lt=step).update(last_step=step)
    return bool(used)


def _use_recovery(user: User, code: str) -> bool:
    if not is_on(user):
        return False
    rows = RecoveryCode.objects.filter(user=user, code_hash=_hash(code), used__isnull=True)
    if rows.update(used=timezone.now()) != 1:
        return False
    changed.send(SecondFactor, user=user, act="use recovery code")
    return True


def _step_of(secret: str, code: str) -> int | None:
    """Return the time step of this code: the current one, or a neighbour, for clocks that differ a little."""
    digits, now = "".join(code.split()), int(time.time()) // STEP
    totp = pyotp.TOTP(secret)
    found = [
        step
        for step in (now, now - 1, now + 1)
        if hmac.compare_digest(totp.generate_otp(step).encode(), digits.encode(errors="replace"))
    ]
    return found[0] if found else None


def _new_codes(user: User) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    codes = [_new_code() for _ in range(CODES)]
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, code_hash=_hash(code)) for code in codes)
    return codes


def _new_code() -> str:
    """Return 80 random bits, in groups that can be read aloud."""
    text = base64.b32encode(secrets.token_bytes(10)).decode().lower()
    return "-".join(text[start : start + 4] for start in range(0, 16, 4))


def _hash(code: str) -> str:
    return sha256("".join(code.split()).replace("-", "").lower().encode(errors="replace")).hexdigest()

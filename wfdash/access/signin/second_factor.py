"""The second factor: a code of an authenticator app (TOTP, RFC 6238), a recovery code or a passkey. Codes work once."""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pyotp
from django.apps import apps
from django.conf import settings
from django.db.models import Exists, OuterRef
from django.dispatch import Signal
from django.utils import timezone
from django.utils.crypto import salted_hmac

from checkpoints.database.storage import write
from checkpoints.models import RecoveryCode, SecondFactor
from checkpoints.models.user_model import User
from wfdash.access.signin import attempt_limits
from wfdash.domain.errors import Invalid, NotFound, WrongState
from wfdash.domain.search_attributes import cleaned

MISTYPED = "Wrong code. Check your device's clock and enter the current code"
ISSUER = "wfdash"
STEP_SECONDS = 30
RECOVERY_CODES = 10
WRONG = "Wrong or already used code. Wait for the next one or use a recovery code"
NO_PASSKEY = "This passkey was not accepted. Try again, or enter a code"
MOST_PASSKEYS = 20
LONGEST_NAME = 80

changed = Signal()
"""Sent inside the transaction of a change, with ``user`` and ``act``: turn on, renew recovery codes, use recovery code,
and with ``passkey`` and ``key``, its name and fingerprint: add passkey, rename passkey, remove passkey, remove lost
passkey. Django's own signals report deleted rows of ``SecondFactor``.
"""


def takes_passkeys() -> bool:
    """Return whether people can have passkeys: django-allauth keeps them, in an app that a project may lack."""
    return apps.is_installed("allauth.mfa")


def allauth_passkeys() -> Any:
    """Return the module that makes and checks passkeys: the models of allauth exist only where its app is installed."""
    from wfdash.access.signin import passkeys

    return passkeys


def passkeys(**of: Any) -> Any:
    """Return the passkeys of whom these look-ups say, oldest first."""
    if not takes_passkeys():
        return SecondFactor.objects.none()
    return apps.get_model("mfa.Authenticator").objects.filter(type="webauthn", **of).order_by("pk")


def has_second_factor() -> Any:
    """Return the condition on people that they have a second factor."""
    app = SecondFactor.objects.filter(user=OuterRef("pk"), confirmed__isnull=False)
    return Exists(app) | Exists(passkeys(user=OuterRef("pk")))


def is_on(user: User) -> bool:
    """Return whether this person is asked for a second factor at sign-in (one query)."""
    return User.objects.filter(has_second_factor(), pk=user.pk).exists()


def has_app(user: User) -> bool:
    """Return whether this person has an authenticator app (one query)."""
    return SecondFactor.objects.filter(user=user, confirmed__isnull=False).exists()


def is_required() -> bool:
    """Return whether everyone must use one (``WFDASH_REQUIRE_SECOND_FACTOR``)."""
    return bool(settings.WFDASH_REQUIRE_SECOND_FACTOR)


def begin(user: User, *, code: str = "", passkey: str = "") -> str:
    """Create a secret for an authenticator, without effect until ``confirm``, and return the id of the set-up.

    Only the session that started a set-up can continue it: otherwise someone else who knows the password could start
    one, keep the secret, and have its owner confirm it. ``WrongState`` if an authenticator is in use; who has passkeys
    proves it by one, or a recovery code.
    """
    if passkeys(user=user).exists():
        check(user, code, passkey)
    with _changing(user):
        SecondFactor.objects.filter(user=user, confirmed__isnull=True).delete()
        if has_app(user):
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


def confirm(user: User, code: str, setup: str, *, once: str = "") -> list[str]:
    """Turn it on with a first code. Returns the recovery codes, shown only now. ``Invalid`` at ``code``."""
    with _counted(user):
        step = _step_of(secret, code) if (secret := pending_secret(user, setup)) else None
        waiting = SecondFactor.objects.filter(user=user, confirmed__isnull=True)
        if step is None or waiting.update(confirmed=timezone.now(), last_step=step) != 1:
            raise Invalid.at("code", MISTYPED)
        changed.send(SecondFactor, user=user, act="turn on")
        return _new_codes(user, once)


def check(user: User, code: str, passkey: str = "") -> None:
    """Accept a code of the authenticator or a recovery code, once, or what a ``passkey`` of theirs signed.

    ``Invalid`` at ``code``, ``TooManyTries``.
    """
    with _counted(user):
        _accept(user, code, passkey)


def add_passkey(user: User, name: str, answer: str, *, once: str = "") -> list[str]:
    """Keep a passkey that the browser made. Returns recovery codes where there were none, shown only now.

    The caller has made sure that it is the person who adds it. ``Invalid`` at ``passkey``, ``WrongState``.
    """
    with _changing(user):
        if passkeys(user=user).count() >= MOST_PASSKEYS:
            raise WrongState(f"You have {MOST_PASSKEYS} passkeys. Remove one first")
        # Someone else may have begun to set up an authenticator while nothing was asked for.
        SecondFactor.objects.filter(user=user, confirmed__isnull=True).delete()
        key = allauth_passkeys().add(user, name, answer)
        changed.send(SecondFactor, user=user, act="add passkey", passkey=name, key=key)
        return [] if codes_left(user) else _new_codes(user, once)


def rename_passkey(user: User, key: str, name: str) -> None:
    """Give one of a person's passkeys another name. ``NotFound``; ``Invalid`` at ``name``."""
    with _changing(user):
        row = _passkey(user, key)
        row.data["name"] = checked_name(name)
        row.save(update_fields=["data"])
        changed.send(SecondFactor, user=user, act="rename passkey", passkey=row.data["name"])


def remove_passkey(user: User, key: str, code: str, passkey: str = "") -> None:
    """Remove one of a person's passkeys. ``NotFound``; ``Invalid`` at ``code``; ``WrongState`` if everyone must have a
    second factor and this is their last one.
    """
    _passkey(user, key)
    check(user, code, passkey)
    with _changing(user):
        row = _passkey(user, key)
        row.delete()
        if not is_on(user):
            if is_required():
                raise WrongState("A second factor is required, and this is your only one. Add another one first")
            RecoveryCode.objects.filter(user=user).delete()
        key = row.data.get("key", "")
        changed.send(SecondFactor, user=user, act="remove passkey", passkey=row.data["name"], key=key)


def checked_name(name: str) -> str:
    """Return the name for a passkey. ``Invalid`` at ``name``."""
    name = cleaned(name)
    if not name or len(name) > LONGEST_NAME:
        raise Invalid.at("name", f"Enter a name of at most {LONGEST_NAME} characters")
    return name


def renew_codes(user: User, code: str, passkey: str = "", *, once: str = "") -> list[str]:
    """Return new recovery codes; the old ones end. ``Invalid`` at ``code``."""
    with _counted(user):
        _accept(user, code, passkey)
        changed.send(SecondFactor, user=user, act="renew recovery codes")
        return _new_codes(user, once)


def codes_made(user: User, once: str) -> list[str]:
    """Return the recovery codes that were made with this text, empty once one of them was used or replaced.

    For a form that is sent twice: the browser shows the answer to the second one alone.
    """
    codes = _codes_of(user, once)
    unused = RecoveryCode.objects.filter(user=user, used__isnull=True, code_hash__in=map(_hash, codes))
    return codes if once and unused.count() == len(codes) else []


def turn_off(user: User, code: str, passkey: str = "") -> None:
    """Turn it off for this person, passkeys included. ``Invalid`` at ``code``; ``WrongState`` where everyone must have
    one.
    """
    if is_required():
        raise WrongState("A second factor is required")
    check(user, code, passkey)
    reset(user, lost=False)


def reset(user: User, *, lost: bool = True) -> bool:
    """Remove it for a person who ``lost`` it. Returns whether there was one. The caller checks the permission."""
    with _changing(user):
        RecoveryCode.objects.filter(user=user).delete()
        removed, _ = SecondFactor.objects.filter(user=user).delete()
        for row in passkeys(user=user):
            act, key = "remove lost passkey" if lost else "remove passkey", row.data.get("key", "")
            changed.send(SecondFactor, user=user, act=act, passkey=row.data["name"], key=key)
            removed += row.delete()[0]
    return bool(removed)


def codes_left(user: User) -> int:
    """Return how many recovery codes are unused."""
    return RecoveryCode.objects.filter(user=user, used__isnull=True).count()


@contextmanager
def _changing(user: User) -> Iterator[None]:
    """Hold the person's row in a transaction: which factors there are does not change in the meantime."""
    with write():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        yield


@contextmanager
def _counted(user: User) -> Iterator[None]:
    """Count a try, which what is raised in this transaction leaves counted."""
    counted = attempt_limits.for_code(user.pk)
    attempt_limits.charge(counted)
    with write():
        yield
    attempt_limits.forgive(counted)


def _accept(user: User, code: str, passkey: str) -> None:
    if passkey:
        used = allauth_passkeys().used(passkey, user) is not None
    else:
        used = _use_step(user, code) or _use_recovery(user, code)
    if not used:
        raise Invalid.at("code", NO_PASSKEY if passkey else WRONG)


def _passkey(user: User, key: str) -> Any:
    row = passkeys(user=user, pk=int(key)).first() if key.isascii() and key.isdigit() and len(key) < 19 else None
    if row is None:
        raise NotFound("Passkey not found, or already removed")
    return row


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
    digits, now = "".join(code.split()), int(time.time()) // STEP_SECONDS
    totp = pyotp.TOTP(secret)
    found = [
        step
        for step in (now, now - 1, now + 1)
        if hmac.compare_digest(totp.generate_otp(step).encode(), digits.encode(errors="replace"))
    ]
    return found[0] if found else None


def _new_codes(user: User, once: str) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    codes = _codes_of(user, once or secrets.token_urlsafe(32))
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, code_hash=_hash(code)) for code in codes)
    return codes


def _codes_of(user: User, once: str) -> list[str]:
    """Return codes of 80 bits, in groups that can be read aloud; only this installation knows them by the text."""
    codes = []
    for number in range(RECOVERY_CODES):
        made = salted_hmac("wfdash.access.signin.second_factor", f"{user.pk} {number} {once}", algorithm="sha256")
        text = base64.b32encode(made.digest()[:10]).decode().lower()
        codes.append("-".join(text[start : start + 4] for start in range(0, 16, 4)))
    return codes


def _hash(code: str) -> str:
    return sha256("".join(code.split()).replace("-", "").lower().encode(errors="replace")).hexdigest()

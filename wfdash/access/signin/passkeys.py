"""Passkeys (WebAuthn): what a browser is to sign, and what its answer proves. django-allauth makes and checks both.

Its table holds public keys, nothing secret. The challenge is kept in the session, and counts once. Import this only
where ``allauth.mfa`` is installed: its models are loaded with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal import auth
from cryptography.exceptions import UnsupportedAlgorithm
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.utils import timezone
from fido2 import cbor
from fido2.utils import websafe_encode

from checkpoints.database.storage import write
from checkpoints.models.user_model import User
from wfdash.access.directory import is_service
from wfdash.domain.errors import Invalid
from wfdash.domain.receipts import key_name

MAX_ANSWER_CHARACTERS = 20_000
"""Characters of an answer; longer ones are no browser's."""
NOT_MADE = "The browser's answer could not be verified. Try again"
NOTHING = (
    *(ObjectDoesNotExist, UnsupportedAlgorithm, ValidationError),
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError),
)
"""What the libraries raise for an answer that no browser gives, and for one that proves nothing."""


class Adapter(DefaultMFAAdapter):  # type: ignore[misc]
    """What authenticators show and keep of the dashboard, and of a person: the name, no address."""

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """Return the dashboard: the host by which the browser reaches it, where alone the passkey works."""
        return {"id": _host(), "name": "wfdash"}

    def get_public_key_credential_user_entity(self, user: User) -> dict[str, Any]:
        """Return the person."""
        entity: dict[str, Any] = super().get_public_key_credential_user_entity(user)
        return entity | dict.fromkeys(("name", "display_name"), user.get_username())


def to_add(user: User) -> Any:
    """Return what the browser makes a passkey of: one that it finds without a name, and asks for PIN or biometrics."""
    return auth.begin_registration(user, passwordless=True)


def to_use(user: User | None) -> Any:
    """Return what a passkey of this person is to sign; None: one of anyone, after PIN or biometrics."""
    return auth.begin_authentication(user)


def add(user: User, name: str, answer: str) -> str:
    """Keep the passkey that a browser made, and return its key's fingerprint. ``Invalid`` at ``passkey``."""
    with _challenge():
        given = auth.parse_registration_response(_read(answer))
        # Written again from what was understood, so that nothing else is stored.
        credential = json.loads(json.dumps(dict(given)))
        verified = auth.complete_registration(credential).is_user_verified()
        known = Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN, data__credential__id=credential["id"])
        if verified and _is_here(given) and not known.exists():
            row = auth.WebAuthn.add(user, name, credential).instance
            row.data["key"] = key_name(public_keys(user)[credential["id"]])
            row.save(update_fields=["data"])
            return str(row.data["key"])
    raise Invalid.at("passkey", NOT_MADE)


def used(answer: str, user: User | None = None) -> User | None:
    """Return whose passkey signed, None if it proves nothing. Without ``user`` it replaces both factors: only after
    PIN or biometrics, and for someone who may sign in.
    """
    with _challenge():
        credential = _read(answer)
        given = auth.parse_authentication_response(credential)
        owner: User = user or auth.extract_user_from_response(credential)
        verified = given.response.authenticator_data.is_user_verified()
        if not _is_here(given) or (user is None and not (verified and owner.is_active and not is_service(owner))):
            return None
        row = auth.complete_authentication(owner, credential)
        with write():
            row = Authenticator.objects.select_for_update().get(pk=row.pk)
            # Of two answers at once to one challenge, which both sessions still had, one counts.
            if row.data.get("answered") != (answered := given.response.client_data.hash.hex()):
                row.data["answered"], row.last_used_at = answered, timezone.now()
                row.save(update_fields=["data", "last_used_at"])
                return owner
    return None


def public_keys(user: User) -> dict[str, str]:
    """Return the public keys of a person's passkeys by the passkey's id, both in base64url."""
    found = auth.get_credentials(user)
    return {websafe_encode(one.credential_id): websafe_encode(cbor.encode(one.public_key)) for one in found}


def _is_here(given: Any) -> bool:
    """Return whether the browser was at this very host: by the standard a host above it would do, too."""
    host: str | None = urlsplit(given.response.client_data.origin).hostname
    return host == _host()


def _host() -> str:
    return str(context.request.get_host()).partition(":")[0]


@contextmanager
def _challenge() -> Iterator[None]:
    """Use up the challenge of this session, whatever the answer; one that proves nothing ends the block."""
    try:
        with suppress(*NOTHING):
            yield
    finally:
        auth.clear_state()


def _read(answer: str) -> Any:
    if len(answer) > MAX_ANSWER_CHARACTERS:
        raise ValueError("too long")
    return json.loads(answer)

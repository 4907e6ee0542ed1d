"""Receipts: what a person signed with their passkey when they answered, and whether it holds. Pure.

A receipt is a statement, the public key, and what the authenticator gave: nothing of an installation is needed to check
it. The authenticator signs the statement's SHA-256 as the challenge of WebAuthn.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from checkpoints.content.canonical_json import dumps

RECEIPT = "wfdash-receipt/1"
"""The format of a receipt."""
PARTS = ("public_key", "client_data", "authenticator_data", "signature")
"""What a receipt holds beside its statement, in base64url."""
MAX_PART_CHARACTERS = 10_000
UNREADABLE = "the receipt is incomplete or not readable"


def challenge_of(statement: Mapping[str, Any]) -> bytes:
    """Return the 32 bytes that are signed for a statement."""
    return sha256(dumps(statement)).digest()


def key_name(public_key: str) -> str:
    """Return the fingerprint of a public key in base64url: 64 hexadecimal digits. ``ValueError``."""
    return sha256(_bytes(public_key)).hexdigest()


def signature_count(receipt: Mapping[str, Any]) -> int:
    """Return how often the authenticator says that it has signed; 0 if it does not count. ``ValueError``."""
    return int.from_bytes(_bytes(receipt["authenticator_data"])[33:37], "big")


def flaw_of(receipt: Any) -> str:
    """Return why a signature does not prove its statement, empty if it does. Whose the key is, it cannot say."""
    # Loaded only here: they take time, and most processes verify nothing.
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from fido2 import cbor
    from fido2.cose import CoseKey
    from fido2.webauthn import AuthenticatorData, CollectedClientData

    try:
        statement, host = receipt["statement"], receipt["statement"]["host"]
        key, written, device, signature = (_bytes(receipt[name]) for name in PARTS)
        public: Any = cbor.decode(key)
        client, data = CollectedClientData(written), AuthenticatorData(device)
        signed = client.type == "webauthn.get" and client.challenge == challenge_of(statement)
        if statement["format"] != RECEIPT or not signed:
            return "something else was signed"
        here = urlsplit(client.origin).hostname == host and data.rp_id_hash == sha256(host.encode()).digest()
        if not here or client.cross_origin:
            return "it was signed at another address"
        if not (data.is_user_present() and data.is_user_verified()):
            return "it was signed without PIN or biometrics"
        CoseKey.parse(public).verify(bytes(data) + client.hash, signature)
    except InvalidSignature:
        return "the signature does not hold"
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return UNREADABLE
    except (NotImplementedError, UnsupportedAlgorithm):
        return "the kind of its key is not supported"
    return ""


def _bytes(text: str) -> bytes:
    from fido2.utils import websafe_decode

    if not isinstance(text, str) or len(text) > MAX_PART_CHARACTERS:
        raise ValueError("no base64url, or too long")
    return bytes(websafe_decode(text))

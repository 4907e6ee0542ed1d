"""Webhook signatures according to Standard Webhooks (``v1``: HMAC-SHA256 over id, time and body). Pure."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256

from wfdash.domain.hooks.signatures import PREFIX, Received, Unsigned, check_signature

KEPT = 2
"""Secrets in use at the same time: the newest, and the previous one until the other side has the newest."""


def rotated(stored: str, secret: str) -> str:
    """Return the secrets to store once this one is the newest."""
    return " ".join([secret, *stored.split()][:KEPT])


def newest(stored: str) -> str:
    """Return the newest of the stored secrets."""
    return stored.split()[0]


def signature(given: Sequence[str], message: str, timestamp: int, body: bytes) -> str:
    """Return the header's value: one signature per secret, so that a receiver can change from one to the next."""
    signed = f"{message}.{timestamp}.".encode() + body
    return " ".join("v1," + _hmac(secret, signed) for secret in given)


def signed_headers(given: Sequence[str], message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the three headers of a delivery."""
    return {
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(given, message, timestamp, body),
    }


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, *, now: float) -> bool:
    """Return whether a delivery is recent and signed with the secret: what a receiver checks."""
    try:
        check_signature("standard", Received(headers=headers, body=body), [secret], "", now)
    except Unsigned:
        return False
    return True


def _hmac(secret: str, signed: bytes) -> str:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("a webhook's secret is whsec_ followed by base64") from None
    return base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()

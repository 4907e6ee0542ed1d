"""Webhook signatures according to Standard Webhooks (``v1``: HMAC-SHA256 over id, time and body). Pure."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256

PREFIX = "whsec_"
BYTES = 32
TOLERANCE = 300
"""Seconds by which a receiver's clock may differ."""
KEPT = 2
"""Secrets in use at the same time: the newest, and the previous one until the other side has the newest."""


def new_secret() -> str:
    """Return a new secret, ``whsec_`` and base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(BYTES)).decode()


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
        message, timestamp = headers["webhook-id"], int(headers["webhook-timestamp"])
        found = headers["webhook-signature"].split()
    except (KeyError, ValueError):
        return False
    wanted = signature([secret], message, timestamp, body)
    return abs(now - timestamp) <= TOLERANCE and any(hmac.compare_digest(wanted, each) for each in found)


def _hmac(secret: str, signed: bytes) -> str:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("a webhook's secret is whsec_ followed by base64") from None
    return base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()

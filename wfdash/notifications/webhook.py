"""Deliveries to webhooks, signed according to Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Callable, Sequence
from hashlib import sha256

from django.conf import settings

from checkpoints.records import frozen
from wfdash.domain.hooks import PREFIX
from wfdash.notifications.letters import HttpReply, Letter, post
from wfdash.notifications.preferences import type_of


@frozen
class HookAttempt:
    """One attempt to deliver. ``status`` is None where there was no HTTP response."""

    ms: int
    status: int | None = None
    answer: str = ""
    error: str = ""


def _keep_none(letter: str, attempt: HookAttempt) -> None:
    return None


@frozen
class Receiver:
    """A webhook: its address, its secrets (the newest first), and what keeps its attempts."""

    url: str
    secrets: tuple[str, ...]
    keep: Callable[[str, HookAttempt], None] = _keep_none


def send_webhook(receiver: Receiver, letters: list[Letter]) -> None:
    """Post each letter separately. ``Undeliverable`` for an address that is refused; ``OSError`` to retry."""
    for letter in letters:
        began = time.monotonic()
        try:
            reply = _post(receiver, letter)
        except Exception as error:
            receiver.keep(letter.id, HookAttempt(ms=_ms(began), error=f"{type(error).__name__}: {error}"[:500]))
            raise
        refusal = refusal_of(reply.status)
        receiver.keep(letter.id, HookAttempt(ms=_ms(began), status=reply.status, answer=reply.text, error=refusal))
        if refusal:
            raise OSError(refusal)


def body_of(letter: Letter) -> bytes:
    """Return the posted body: ``{"type", "timestamp", "data"}``."""
    event = {
        "type": type_of(letter.kind),
        "timestamp": letter.at.isoformat(),
        "data": {**letter.payload, "url": letter.url},
    }
    return json.dumps(event, separators=(",", ":")).encode()


def refusal_of(status: int) -> str:
    """Return why a response is no success, empty if it is one."""
    if 200 <= status < 300:
        return ""
    return f"the receiver answered {status}" + (" (redirects are not followed)" if 300 <= status < 400 else "")


def _post(receiver: Receiver, letter: Letter) -> HttpReply:
    body = body_of(letter)
    headers = signed_headers(receiver.secrets, letter.id, int(time.time()), body)
    inside = settings.WFDASH_HOOKS_HOSTS
    return post(receiver.url, body, {"content-type": "application/json", **headers}, inside=inside)


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


# Webhook signatures according to Standard Webhooks (``v1``: HMAC-SHA256 over id, time and body). Pure.

KEPT_SECRETS = 2
"""Secrets in use at the same time: the newest, and the previous one until the other side has the newest."""


def rotated(stored: str, secret: str) -> str:
    """Return the secrets to store once this one is the newest."""
    return " ".join([secret, *stored.split()][:KEPT_SECRETS])


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


def _hmac(secret: str, signed: bytes) -> str:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("a webhook's secret is whsec_ followed by base64") from None
    return base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()

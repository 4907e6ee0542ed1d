"""Deliveries to webhooks, signed according to Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings

from wfdash.notifications.kinds import type_of
from wfdash.notifications.letters import Letter
from wfdash.notifications.outside import HttpReply, post
from wfdash.notifications.signing import signed_headers


@dataclass(frozen=True, kw_only=True)
class HookAttempt:
    """One attempt to deliver. ``status`` is None where there was no HTTP response."""

    ms: int
    status: int | None = None
    answer: str = ""
    error: str = ""


def _keep_none(letter: str, attempt: HookAttempt) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
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

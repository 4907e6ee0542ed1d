"""Delivers to webhooks: one signed POST per letter."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from wfdash.notifications.kinds import KINDS
from wfdash.notifications.letters import Letter
from wfdash.notifications.outside import post
from wfdash.notifications.signing import signed_headers


@dataclass(frozen=True, kw_only=True)
class Receiver:
    """A webhook: its address, and its secrets, the newest first."""

    url: str
    secrets: tuple[str, ...]


def send_webhook(receiver: Receiver, letters: list[Letter]) -> None:
    """Post each letter separately. ``Undeliverable`` for an address that is refused; ``OSError`` to retry."""
    for letter in letters:
        body = body_of(letter)
        headers = signed_headers(receiver.secrets, letter.id, int(time.time()), body)
        status = post(receiver.url, body, {"content-type": "application/json", **headers})
        if not 200 <= status < 300:
            raise OSError(f"the receiver answered {status}" + (" (redirects are not followed)" if status < 400 else ""))


def body_of(letter: Letter) -> bytes:
    """Return the posted body: ``{"type", "timestamp", "data"}``."""
    event = {
        "type": f"{_about(letter.kind)}.{letter.kind}",
        "timestamp": letter.at.isoformat(),
        "data": {**letter.payload, "url": letter.url},
    }
    return json.dumps(event, separators=(",", ":")).encode()


def _about(kind: str) -> str:
    return KINDS[kind].about if kind in KINDS else "request"

"""Chat and push services through Apprise (``pip install wfdash[apprise]``), at the addresses the settings name."""

from __future__ import annotations

import importlib
from typing import Any

from django.conf import settings

from checkpoints.models.user_model import User
from wfdash.notifications.letters import Letter, Undeliverable

MOST = 10
"""Letters listed in one message."""


def send_apprise(receiver: User, letters: list[Letter]) -> None:
    """Send one message to all of this person's addresses. ``Undeliverable`` without any; ``OSError`` to retry."""
    addresses = settings.WFDASH_APPRISE.get(receiver.get_username(), [])
    if not addresses:
        raise Undeliverable("WFDASH_APPRISE has no address for this person")
    try:
        apprise: Any = importlib.import_module("apprise")
    except ImportError:
        raise Undeliverable("Apprise is not installed: pip install wfdash[apprise]") from None
    service = apprise.Apprise()
    if not service.add(addresses):
        raise Undeliverable("WFDASH_APPRISE has an address for this person that Apprise does not support")
    title = letters[0].headline if len(letters) == 1 else f"{len(letters)} notifications from wfdash"
    if not service.notify(title=title, body=body_of(letters)):
        raise OSError("Apprise could not deliver to every address")


def body_of(letters: list[Letter]) -> str:
    """Return the message."""
    lines = [f"{letter.headline}\n{letter.url}" if len(letters) > 1 else letter.url for letter in letters[:MOST]]
    if len(letters) == 1 and letters[0].text:
        lines.insert(0, letters[0].text)
    if len(letters) > MOST:
        lines.append(f"and {len(letters) - MOST} more")
    return "\n\n".join(lines)

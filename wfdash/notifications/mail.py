"""Mails: one for a single letter, one for several that are due together. Text and HTML, no images, nothing loaded."""

from __future__ import annotations

import importlib
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.urls import reverse

from checkpoints.models.user_model import User, email_of
from wfdash.notifications.letters import Letter, Undeliverable
from wfdash.notifications.preferences import Preferences
from wfdash.notifications.rendering import absolute, render_to_string

# Chat and push services through Apprise (``pip install wfdash[apprise]``), at the addresses the settings name.

MOST_LETTERS_OF_MESSAGE = 10
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
    lines = [
        f"{letter.headline}\n{letter.url}" if len(letters) > 1 else letter.url
        for letter in letters[:MOST_LETTERS_OF_MESSAGE]
    ]
    if len(letters) == 1 and letters[0].text:
        lines.insert(0, letters[0].text)
    if len(letters) > MOST_LETTERS_OF_MESSAGE:
        lines.append(f"and {len(letters) - MOST_LETTERS_OF_MESSAGE} more")
    return "\n\n".join(lines)


MOST_LETTERS = 50
"""Letters that one mail lists; of the others it gives the number."""


def send_mail(receiver: tuple[User, Preferences], letters: list[Letter]) -> None:
    """Send one mail. ``Undeliverable`` without an address; an error of the mail server is retried."""
    user, wishes = receiver
    if not settings.WFDASH_MAIL or not email_of(user):
        raise Undeliverable("Email is not configured, or this person has no address")
    mail_of(user, letters, zone=wishes.zone).send()


def mail_of(user: User, letters: list[Letter], *, zone: str = "UTC") -> EmailMultiAlternatives:
    """Return the mail that contains all these letters."""
    context = {
        "user": user,
        "letters": letters[:MOST_LETTERS],
        "more": max(0, len(letters) - MOST_LETTERS),
        "zone": ZoneInfo(zone),
        "times": any(letter.due for letter in letters),
        "installation": urlsplit(settings.WFDASH_URL).netloc,
        "inbox_url": absolute(reverse("wfdash:inbox")),
        "settings_url": absolute(reverse("wfdash:settings")),
    }
    name = "notice" if len(letters) == 1 else "digest"
    subject = letters[0].headline if len(letters) == 1 else f"{len(letters)} notifications from wfdash"
    mail = EmailMultiAlternatives(
        subject=subject,
        body=render_to_string(f"mail/{name}.txt", context),
        to=[email_of(user)],
        headers={
            "Message-ID": message_id(letters),
            "Auto-Submitted": "auto-generated",
            "X-Auto-Response-Suppress": "All",
        },
    )
    mail.attach_alternative(render_to_string(f"mail/{name}.html", context), "text/html")
    return mail


def message_id(letters: list[Letter]) -> str:
    """Return an id that is the same at every attempt to send the same letters, so that duplicates can be dropped."""
    digest = sha256("\n".join(letter.id for letter in letters).encode()).hexdigest()[:32]
    return f"<{digest}@{urlsplit(settings.WFDASH_URL).hostname or 'wfdash'}>"

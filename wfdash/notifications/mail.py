"""Mails: one for a single letter, one for several that are due together. Text and HTML, no images, nothing loaded."""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.urls import reverse

from checkpoints.models.user_model import User, email_of
from wfdash.notifications.letters import Letter, Undeliverable
from wfdash.notifications.preferences import Preferences
from wfdash.rendering import render_to_string
from wfdash.rendering.addresses import absolute

MOST = 50
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
        "letters": letters[:MOST],
        "more": max(0, len(letters) - MOST),
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

"""The mail with a one-time sign-in link. It is sent at once and stored nowhere: the link is a secret."""

from __future__ import annotations

import logging
from datetime import timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage

from checkpoints.models.user_model import User, email_of
from wfdash.rendering import render_to_string

log = logging.getLogger(__name__)


def mail_link(user: User, link: str, *, by: str, lifetime: timedelta, first: bool = False) -> bool | None:
    """Mail a person their link; return whether that worked. None: mail is not configured, or they have no address.

    ``first``: it is their invitation.
    """
    if not settings.WFDASH_MAIL or not email_of(user) or "://" not in link:
        return None
    hours = int(lifetime.total_seconds() // 3600)
    valid = f"{hours // 24} days" if hours > 24 else "1 hour" if hours == 1 else f"{hours} hours"
    installation = urlsplit(link).netloc
    context = {"user": user, "link": link, "by": by, "valid": valid, "first": first, "installation": installation}
    subject = f"{by} invites you to wfdash" if first else "Sign in to wfdash"
    headers = {"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All"}
    body = render_to_string("mail/sign_in_link.txt", context)
    try:
        EmailMessage(subject=subject, body=body, to=[email_of(user)], headers=headers).send()
    except OSError as error:
        # smtplib's errors are OSErrors, too.
        log.warning("The sign-in link for %s could not be mailed: %s", user.get_username(), error)
        return False
    return True

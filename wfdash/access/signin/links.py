"""One-time sign-in links: created on the server, used once, short-lived, stored as a hash."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import salted_hmac

from checkpoints.models import SignInLink
from checkpoints.models.user_model import User
from wfdash.access.directory import is_service
from wfdash.access.signin.tokens import hash_of
from wfdash.domain.errors import NotFound, WrongState
from wfdash.notifications.rendering import absolute

LIFETIME = timedelta(hours=1)
LINKS_KEPT = timedelta(days=30)
"""How long an expired link is known as such."""


def create_link(user: User, *, base: str = "", lifetime: timedelta = LIFETIME, once: str = "") -> str:
    """Return a link that signs ``user`` in once, absolute with ``base``, e.g. ``http://127.0.0.1:8000``.

    ``once``: a text that gives the same link again, on this installation alone. ``WrongState`` for a service account,
    which never signs in.
    """
    if is_service(user):
        raise WrongState(f"{user.get_username()} is a service account: it acts by tokens and never signs in")
    made_of = f"{user.pk} {once or secrets.token_urlsafe(32)}"
    secret = salted_hmac("wfdash.access.signin.links", made_of, algorithm="sha256").hexdigest()
    given = {"expires": timezone.now() + lifetime}
    SignInLink.objects.get_or_create(secret_hash=hash_of(secret), user=user, defaults=given)
    path = reverse("wfdash:sign-in-link", args=[secret])
    return absolute(path, base=base) if base else path


def revoke_links(user: User) -> int:
    """Make every unused link of a person useless, in the caller's transaction; return how many there were."""
    now = timezone.now()
    return SignInLink.objects.filter(user=user, used__isnull=True, expires__gt=now).update(expires=now)


def find_link(secret: str) -> SignInLink:
    """Return the link if it can still be used; ``NotFound`` says that it was used, has expired or never existed."""
    link = SignInLink.objects.select_related("user").filter(secret_hash=hash_of(secret)).first()
    if link is None or not link.user.is_active or is_service(link.user):
        raise NotFound("The link is incomplete or was never created")
    if link.used is not None:
        raise NotFound("The link has already been used")
    if link.expires <= timezone.now():
        raise NotFound("The link has expired")
    return link


def use_link(secret: str) -> User:
    """Use up the link and return its user; of two concurrent calls exactly one succeeds."""
    link = find_link(secret)
    if SignInLink.objects.filter(pk=link.pk, used__isnull=True).update(used=timezone.now()) != 1:
        raise NotFound("The link has already been used")
    return link.user


def forget_links(limit: int) -> int:
    """Remove links that expired ``LINKS_KEPT`` ago, used or not; return how many. Who opens one before reads what
    it was.
    """
    old = SignInLink.objects.filter(expires__lt=timezone.now() - LINKS_KEPT).order_by("pk").values_list("pk", flat=True)
    return SignInLink.objects.filter(pk__in=list(old[:limit])).delete()[0]

"""Browsers that get push notifications: subscribe this one, remove one, try one. Everyone manages only their own."""

from __future__ import annotations

from hashlib import sha256

from django.utils import timezone

from checkpoints import ids
from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.models import Notice, PushSubscription
from wfdash.access.administration import refuse_narrow
from wfdash.access.viewer import Viewer
from wfdash.actions import pacing
from wfdash.domain.errors import Invalid, NotFound
from wfdash.notifications.letters import Undeliverable, refuse_address
from wfdash.notifications.preferences import PUSH
from wfdash.notifications.push import REMEDY, decoded, is_installed
from wfdash.values.schemas.validate import Problem

MAX_BROWSERS = 10
"""Browsers of one person."""
MAX_ENDPOINT_CHARACTERS = 1_000


def subscribe(viewer: Viewer, *, endpoint: str, p256dh: str, auth: str, name: str) -> PushSubscription:
    """Subscribe a browser for a person. One that was subscribed before, by whomever, is theirs now.

    ``Invalid``: not an address that is posted to, no keys, or more browsers than ten.
    """
    refuse_narrow(viewer)
    if problems := _problems(endpoint, p256dh, auth):
        raise Invalid(problems)
    digest = sha256(endpoint.encode()).hexdigest()
    with write():
        pacing.charge(viewer, "push")
        others = PushSubscription.objects.filter(user=viewer.user).exclude(digest=digest)
        if others.count() >= MAX_BROWSERS:
            raise Invalid([{"loc": [], "msg": f"At most {MAX_BROWSERS} browsers. Remove one of them first"}])
        PushSubscription.objects.filter(digest=digest).delete()
        return PushSubscription.objects.create(
            id=ids.new_token(),
            user=viewer.user,
            digest=digest,
            data={"endpoint": endpoint, "p256dh": p256dh, "auth": auth},
            name=(name.strip() or "Browser")[:80],
            created=timezone.now(),
        )


def unsubscribe(viewer: Viewer, browser_id: str) -> None:
    """Remove one of a person's browsers, and what waits for it. ``NotFound``."""
    refuse_narrow(viewer)
    with write():
        pacing.charge(viewer, "push")
        forget_browser(_find(viewer, browser_id).pk)


def try_push(viewer: Viewer, browser_id: str) -> Notice:
    """Return a test notification for one of a person's browsers, sent like any other. ``NotFound``."""
    refuse_narrow(viewer)
    with write():
        pacing.charge(viewer, "push")
        now, target = database_now(), _find(viewer, browser_id).pk
        return Notice.objects.create(
            id=ids.new_token(), kind="test", channel=PUSH, user=viewer.user, target=target, created=now, due=now
        )


def forget_browser(browser_id: str) -> None:
    """Remove a browser that is no longer subscribed, and what waits for it."""
    PushSubscription.objects.filter(pk=browser_id).delete()
    Notice.objects.filter(channel=PUSH, target=browser_id, sent__isnull=True, given_up__isnull=True).delete()


def _find(viewer: Viewer, browser_id: str) -> PushSubscription:
    found = PushSubscription.objects.filter(pk=browser_id, user=viewer.user).first()
    if found is None:
        raise NotFound("Browser not found")
    return found


def _problems(endpoint: str, p256dh: str, auth: str) -> list[Problem]:
    if not is_installed():
        return [{"loc": [], "msg": f"Push notifications are not installed: {REMEDY}"}]
    found: list[Problem] = []
    try:
        refuse_address(endpoint)
    except Undeliverable as error:
        found.append({"loc": ["endpoint"], "msg": str(error)})
    if len(endpoint) > MAX_ENDPOINT_CHARACTERS:
        found.append({"loc": ["endpoint"], "msg": f"At most {MAX_ENDPOINT_CHARACTERS} characters"})
    if not _is_key(p256dh):
        found.append({"loc": ["p256dh"], "msg": "Not a public key of P-256"})
    if len(_bytes(auth)) != 16:
        found.append({"loc": ["auth"], "msg": "Must be 16 bytes in base64url"})
    return found


def _is_key(text: str) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(text))
    except ValueError:
        return False
    return len(_bytes(text)) == 65  # browsers send it uncompressed, and the cipher wants it so


def _bytes(text: str) -> bytes:
    try:
        return decoded(text[:200])
    except ValueError:
        return b""

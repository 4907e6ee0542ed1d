"""Push notifications to subscribed browsers (Web Push: RFC 8030, 8291, 8292): encrypted for the browser alone.

The push service sees neither title nor link, only that something was sent. A phone shows it on its lock screen: no text
that a person wrote, no link that answers, and where content is stored encrypted not what the request is about either.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import time
from collections.abc import Mapping
from email.utils import parseaddr
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse

from checkpoints.records import frozen
from wfdash.installation.location import make_private
from wfdash.notifications.letters import Letter, Undeliverable, headline, post
from wfdash.notifications.preferences import KINDS

KEPT_SECONDS = 86_400
"""How long a push service keeps it for a browser that is off."""
TOKEN_SECONDS = 12 * 3600
GONE = frozenset({404, 410})
AGAIN = frozenset({408, 425, 429})
"""What is worth another attempt, besides the answers of 500 and above."""


class Unsubscribed(Undeliverable):
    """The browser took its subscription back, or the push service has forgotten it."""


@frozen
class Browser:
    """A subscribed browser: its address at its push service and its keys, in base64url. ``waiting``: open requests of
    its person, for the badge.
    """

    endpoint: str
    p256dh: str
    auth: str
    waiting: int = 0


def send_push(receiver: Browser, letters: list[Letter]) -> None:
    """Send one message for all letters. ``Unsubscribed``; ``Undeliverable``; ``OSError`` to retry."""
    if not is_installed():
        raise Undeliverable(f"Push notifications are not installed: {REMEDY}")
    body = encrypted(receiver, json.dumps(message_of(letters, receiver.waiting)).encode())
    status = post(receiver.endpoint, body, _headers(receiver.endpoint, letters)).status
    if status in GONE:
        raise Unsubscribed("The browser is no longer subscribed")
    if 400 <= status < 500 and status not in AGAIN:
        raise Undeliverable(f"The push service answered {status}")
    if not 200 <= status < 300:
        raise OSError(f"the push service answered {status}")


def message_of(letters: list[Letter], waiting: int) -> dict[str, Any]:
    """Return what the browser shows: ``title``, ``body``, ``url`` (a path), ``tag`` (the same at every attempt),
    ``waiting``.
    """
    first = letters[0]
    one = len(letters) == 1
    url = urlsplit(first.url)
    return {
        "title": title_of(first) if one else f"{len(letters)} notifications from wfdash",
        "body": str(first.payload.get("workflow") or "") if one else "",
        "url": (f"{url.path}?{url.query}" if url.query else url.path) if one else reverse("wfdash:notifications"),
        "tag": _digest(letters),
        "waiting": waiting,
    }


def title_of(letter: Letter) -> str:
    """Return what happened in one line; without its subject where content is stored encrypted."""
    known: Mapping[str, Any] = letter.payload
    if settings.WFDASH_ENCRYPTION_KEYS:
        known = {"by": letter.payload.get("by"), "verdict": letter.payload.get("verdict")}
        about = KINDS[letter.kind].about if letter.kind in KINDS else "request"
        return headline(letter.kind, {**known, "subject": "a run" if about == "run" else ""})
    return headline(letter.kind, known)


def encrypted(browser: Browser, message: bytes) -> bytes:
    """Return a message that only this browser can read (``aes128gcm``). ``Undeliverable`` if its keys are no keys."""
    import http_ece
    from cryptography.hazmat.primitives.asymmetric import ec

    encrypt: Any = http_ece.encrypt
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        dh, auth = decoded(browser.p256dh), decoded(browser.auth)
        return bytes(
            encrypt(message, salt=os.urandom(16), private_key=key, dh=dh, auth_secret=auth, version="aes128gcm")
        )
    except (http_ece.ECEException, ValueError) as error:
        raise Undeliverable("The keys of this browser are damaged") from error


def _headers(endpoint: str, letters: list[Letter]) -> dict[str, str]:
    urgent = any(letter.kind in KINDS and KINDS[letter.kind].at_once for letter in letters)
    return {
        **_signed(endpoint),
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        "ttl": str(KEPT_SECONDS),
        "urgency": "high" if urgent else "normal",
        "topic": _digest(letters),
    }


def _signed(endpoint: str) -> dict[str, str]:
    """Return the header that says who sends: a token for this push service alone, signed with our key."""
    from py_vapid import VapidException

    parts = urlsplit(endpoint)
    port = f":{parts.port}" if parts.port else ""
    claims = {
        "aud": f"{parts.scheme}://{parts.hostname}{port}",
        "exp": int(time.time()) + TOKEN_SECONDS,
        # Where the operator of a push service can reach ours: some refuse a token without.
        "sub": f"mailto:{parseaddr(settings.DEFAULT_FROM_EMAIL)[1] or 'wfdash@localhost'}",
    }
    try:
        return {name.lower(): str(value) for name, value in vapid().sign(claims).items()}
    except VapidException as error:  # an address without a host name
        raise Undeliverable("The address of this browser is not one of a push service") from error


def _digest(letters: list[Letter]) -> str:
    """Return a name for these letters: a second attempt replaces what the first one left."""
    return sha256("\n".join(letter.id for letter in letters).encode()).hexdigest()[:32]


# The installation's key for push services (VAPID): one private key, made when it is first needed.

REMEDY = "pip install wfdash[push]"
BYTES = 32


@cache
def is_installed() -> bool:
    """Return whether the libraries of the extra ``push`` are there: looked for once, as it reads folders."""
    return all(find_spec(name) is not None for name in ("http_ece", "py_vapid"))


def vapid() -> Any:
    """Return the key as ``py_vapid`` has it. ``ValueError`` if it is none; ``ImportError`` without the extra."""
    from py_vapid import Vapid02

    load: Any = Vapid02.from_raw
    return load(private_raw=encoded(private_key()).encode())


def public_key() -> str:
    """Return the public half, in base64url: browsers want it to subscribe."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return encoded(vapid().public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


def private_key() -> bytes:
    """Return the private half: ``WFDASH_PUSH_KEY``, or the file in the data directory, made if it is missing."""
    path = Path(settings.WFDASH_DATA_DIR) / "push_key"
    text = settings.WFDASH_PUSH_KEY or _read_or_make(path)
    try:
        key = decoded(text.strip())
    except ValueError:
        key = b""
    if len(key) != BYTES:
        where = "WFDASH_PUSH_KEY" if settings.WFDASH_PUSH_KEY else str(path)
        raise ValueError(f"{where} is not a private VAPID key: 32 bytes in base64url")
    return key


def encoded(data: bytes) -> str:
    """Return base64url without padding, as push services and browsers have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Return the bytes of base64url. ``ValueError``."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("not base64url") from error


def _read_or_make(path: Path) -> str:
    """Return the file's text. Of processes that begin at the same time the first one's key stays."""
    if not path.exists():
        _make(path)
    return path.read_text()


def _make(path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    make_private(path.parent)
    draft = path.with_name(f"push_key.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(encoded(number.to_bytes(BYTES, "big")))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)  # complete, and never over another's
    except FileExistsError:
        pass
    finally:
        draft.unlink()

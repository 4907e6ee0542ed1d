"""The installation's key for push services (VAPID): one private key, made when it is first needed.

Browsers are bound to its public half: with another key, each has to be subscribed again.
"""

from __future__ import annotations

import base64
import binascii
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings

from wfdash.installation.location import make_private

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

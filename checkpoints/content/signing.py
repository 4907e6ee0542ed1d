"""Signatures by keys that are not in the database: HMAC-SHA256, with the id of the key that made them. Pure."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from functools import lru_cache

KEY_ID = 8
"""Hexadecimal digits of a key's id."""
PARTS = "\x1f"


class Keyring:
    """Signing keys: the first one signs, all verify."""

    def __init__(self, secrets: Sequence[str], purpose: str = "audit") -> None:
        """``purpose``: what is signed. Its keys are derived from the secrets, and sign nothing of another purpose."""
        kind = f"wfdash {purpose}".encode()
        made = [hmac.digest(secret.encode(), kind, "sha256") for secret in secrets]
        ids = [hmac.digest(secret.encode(), kind + b" id", "sha256").hex()[:KEY_ID] for secret in secrets]
        self._keys = dict(zip(ids, made, strict=True))
        self._first = ids[0]

    def sign(self, *parts: str) -> str:
        """Return ``<key>:<hmac>`` over the parts, 73 characters."""
        return f"{self._first}:{self._mac(self._first, parts)}"

    def flaw(self, signature: str, *parts: str) -> str:
        """Return why a signature does not verify for these parts, empty if it does."""
        key, _, mac = signature.partition(":")
        if not mac:
            return "is not signed"
        if key not in self._keys:
            return f"is signed with key {key}, which is not set"
        same = hmac.compare_digest(mac.encode(), self._mac(key, parts).encode())
        return "" if same else "has a signature that does not hold"

    def lacks(self, signature: str) -> bool:
        """Return whether a signature is by a key that is not in the ring: nothing says whether it holds."""
        key, _, mac = signature.partition(":")
        return bool(mac) and key not in self._keys

    def _mac(self, key: str, parts: Sequence[str]) -> str:
        return hmac.digest(self._keys[key], PARTS.join(parts).encode(), "sha256").hex()


@lru_cache(maxsize=16)
def keyring_of(keys: str, *otherwise: str) -> Keyring:
    """Return the keys of a comma-separated list; of an empty one, the default keys."""
    return Keyring([key.strip() for key in keys.split(",") if key.strip()] or list(otherwise))

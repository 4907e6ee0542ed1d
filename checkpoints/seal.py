"""Encryption at rest: text and chunks that only read under a key, and only in the row they were written for.

A sealer turns text into ``wfdash-sealed:<key>:<base64>`` and back. The first key of a ring seals, all of them open;
``plain`` in a ring is the key that does nothing. AES-256-GCM; what a row is (table, run, id, column) is authenticated
with the content, so content moved to another row is found as ``Damaged``.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from checkpoints.canonical import dumps, loads
from checkpoints.errors import Damaged, Incompatible, InvalidConfig

MARK = "wfdash-sealed:"
CHUNK_MARK = b"\x00wfs"
SEALED = "sealed"
"""The key under which a document that is partly in the clear keeps all of itself."""
PLAIN = "plain"
CLEAR = frozenset(
    {
        *("activation", "item", "attempt", "attempts", "at", "until", "ms", "by", "verdict", "key", "name"),
        *("request", "checkpoint", "n", "run", "worker", "epoch", "fraction", "names", "ended"),
    }
)
"""What of an event's data stays readable: pages ask the database for it, and it holds no value of a workflow."""
LONG_ENOUGH = 32
"""Characters of a key at least."""
NONCE = 12
NAME = 20
"""Bytes of a chunk's name, as many as of its hash."""
KEY_ID = 8


class Locked(Incompatible):
    """The stored content does not open with the keys that are configured: see the message for what to add."""


class Cipher(Protocol):
    """One key. A row is named by a few texts; ``name`` is what a chunk is stored under."""

    id: str

    def encrypt(self, data: bytes, row: bytes, nonce: bytes) -> bytes:
        """Return the data, unreadable."""

    def decrypt(self, data: bytes, row: bytes) -> bytes:
        """Return it readable again. ``Damaged``."""

    def name(self, family: str, key: str) -> str:
        """Return what the chunk with that hash is called in that family."""

    def nonce_for(self, family: str, key: str) -> bytes:
        """Return the nonce of that chunk: the same content gets the same bytes, nothing else does."""


class Aes:
    """AES-256-GCM with keys derived from a secret."""

    def __init__(self, secret: str) -> None:
        """``InvalidConfig`` for a short secret, or if the ``cryptography`` package is not installed."""
        if len(secret) < LONG_ENOUGH:
            raise InvalidConfig(f"WFDASH_ENCRYPTION_KEYS: a key needs at least {LONG_ENOUGH} characters")
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise InvalidConfig("WFDASH_ENCRYPTION_KEYS needs: pip install 'wfdash[encryption]'") from None
        self._aes = AESGCM(derived(secret, "content"))
        self._names = derived(secret, "names")
        self._altered = InvalidTag
        self.id = derived(secret, "id").hex()[:KEY_ID]

    def encrypt(self, data: bytes, row: bytes, nonce: bytes) -> bytes:
        """Return nonce and ciphertext."""
        return nonce + self._aes.encrypt(nonce, data, row)

    def decrypt(self, data: bytes, row: bytes) -> bytes:
        """Return the plaintext. ``Damaged`` if a bit was changed, or it was written for another row."""
        try:
            return self._aes.decrypt(data[:NONCE], data[NONCE:], row)
        except (self._altered, ValueError):
            raise Damaged("the encrypted content was altered, or belongs to another row") from None

    def name(self, family: str, key: str) -> str:
        """Return 40 hex digits that tell nobody without the key what the chunk holds, or who else has it."""
        return self._mac("name", family, key).hex()

    def nonce_for(self, family: str, key: str) -> bytes:
        """Return 12 bytes."""
        return self._mac("nonce", family, key)[:NONCE]

    def _mac(self, *parts: str) -> bytes:
        return hmac.digest(self._names, place(*parts), "sha256")[:NAME]


class Open:
    """The key that does nothing; only a text that would look sealed is wrapped."""

    id = PLAIN

    def encrypt(self, data: bytes, row: bytes, nonce: bytes) -> bytes:
        """Return the data."""
        return data

    def decrypt(self, data: bytes, row: bytes) -> bytes:
        """Return the data."""
        return data

    def name(self, family: str, key: str) -> str:
        """Return the hash itself."""
        return key

    def nonce_for(self, family: str, key: str) -> bytes:
        """Return nothing."""
        return b""


class Sealer:
    """A ring of keys: the first one seals, all open."""

    def __init__(self, ciphers: Sequence[Cipher]) -> None:
        self._first = ciphers[0]
        self._ciphers = {cipher.id: cipher for cipher in ciphers}
        self.active = any(cipher.id != PLAIN for cipher in ciphers)
        """Whether anything is or was encrypted."""

    def seal(self, text: str, *row: str) -> str:
        """Return text that is stored in that row."""
        if self._first.id == PLAIN:
            return wrapped(text) if text.startswith(MARK) else text
        data = self._first.encrypt(text.encode(), place(*row), secrets.token_bytes(NONCE))
        return f"{MARK}{self._first.id}:{b64encode(data).decode()}"

    def open(self, text: str, *row: str) -> str:
        """Return the text as it was given. ``Damaged``; ``Locked`` if its key is not in the ring."""
        if not text.startswith(MARK):
            self._cipher(PLAIN)
            return text
        key, _, body = text[len(MARK) :].partition(":")
        try:
            data = b64decode(body, validate=True)
        except ValueError:
            raise Damaged("the encrypted content was altered") from None
        return self._cipher(key).decrypt(data, place(*row)).decode()

    def is_current(self, text: str) -> bool:
        """Say whether the first key sealed it."""
        key = text[len(MARK) :].partition(":")[0] if text.startswith(MARK) else PLAIN
        return key == self._first.id

    def seal_document(self, text: str, *row: str, clear: Collection[str] = ()) -> str:
        """Return JSON text as JSON text. Entries named ``clear`` of a dict stay readable beside the sealed whole."""
        if self._first.id == PLAIN and MARK not in text:
            return text
        sealed = self.seal(text, *row) if self._first.id != PLAIN else wrapped(text)
        document = loads(text)
        if not clear or not isinstance(document, dict):
            return dumps(sealed).decode()
        shown = {name: value for name, value in document.items() if name in clear}
        return dumps({**shown, SEALED: sealed}).decode()

    def open_document(self, text: str, *row: str) -> str:
        """Return the JSON text as it was given. ``Damaged``, ``Locked``."""
        sealed = sealed_in(loads(text)) if MARK in text else None
        if sealed is None:
            self._cipher(PLAIN)
            return text
        return self.open(sealed, *row)

    def seal_chunk(self, data: bytes, family: str, key: str) -> bytes:
        """Return the bytes of a chunk as they are stored; the same content gets the same bytes."""
        if self._first.id == PLAIN:
            return data
        row = place("chunk", family, self.name(family, key))
        sealed = self._first.encrypt(data, row, self._first.nonce_for(family, key))
        return CHUNK_MARK + self._first.id.encode() + sealed

    def open_chunk(self, data: bytes, family: str, name: str) -> bytes:
        """Return the chunk that is stored under that name as it was given. ``Damaged``, ``Locked``."""
        if not data.startswith(CHUNK_MARK):
            self._cipher(PLAIN)
            return data
        start = len(CHUNK_MARK) + KEY_ID
        cipher = self._cipher(data[len(CHUNK_MARK) : start].decode(errors="replace"))
        return cipher.decrypt(data[start:], place("chunk", family, name))

    def is_current_chunk(self, data: bytes) -> bool:
        """Say whether the first key sealed it."""
        start = len(CHUNK_MARK)
        key = data[start : start + KEY_ID].decode(errors="replace") if data.startswith(CHUNK_MARK) else PLAIN
        return key == self._first.id

    def name(self, family: str, key: str) -> str:
        """Return what a chunk is stored under."""
        return self._first.name(family, key)

    def names(self, family: str, keys: Iterable[str]) -> dict[str, str]:
        """Return the hash by every name under which one of these chunks may be stored."""
        return {cipher.name(family, key): key for key in keys for cipher in self._ciphers.values()}

    def _cipher(self, key: str) -> Cipher:
        if key not in self._ciphers:
            what = "is not encrypted: add plain" if key == PLAIN else f"is encrypted with key {key}: add that key"
            raise Locked(f"the stored content {what} to WFDASH_ENCRYPTION_KEYS")
        return self._ciphers[key]


def wrapped(text: str) -> str:
    """Return a text that looks sealed so that it opens to itself."""
    return f"{MARK}{PLAIN}:{b64encode(text.encode()).decode()}"


def sealed_in(document: object) -> str | None:
    """Return the sealed text that a stored document is or holds, None if it is in the clear."""
    held = document.get(SEALED) if isinstance(document, dict) else document
    return held if isinstance(held, str) and held.startswith(MARK) else None


def derived(secret: str, purpose: str) -> bytes:
    """Return 32 bytes for one purpose (HKDF-SHA256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=f"wfdash {purpose}".encode()).derive(secret.encode())


def place(*row: str) -> bytes:
    """Return a row's identity as bytes."""
    return "\x1f".join(row).encode()


@lru_cache(maxsize=16)
def sealer_of(keys: str) -> Sealer:
    """Return the ring of a comma-separated list of keys; of an empty one, the ring that does nothing."""
    names = [key.strip() for key in keys.split(",") if key.strip()] or [PLAIN]
    return Sealer([Open() if name == PLAIN else Aes(name) for name in names])

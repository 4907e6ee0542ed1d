"""Encryption at rest: text and chunks are encrypted under a key and bound to the row they belong to.

An encryptor turns text into ``wfdash-sealed:<key>:<base64>`` and back. The first key encrypts, all keys decrypt;
``plain`` among them is the key that does nothing. AES-256-GCM; what a row is (table, run, id, column) is authenticated
with the content, so content moved to another row is found as ``Damaged``.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.errors import Damaged, Incompatible, InvalidConfig, Unreadable

MARK = "wfdash-sealed:"
CHUNK_MARK = b"\x00wfs"
ENCRYPTED_KEY = "sealed"
"""The key under which a document that is partly in the clear keeps all of itself."""
PLAIN = "plain"
MIN_KEY_LENGTH = 32
"""Characters of a key at least."""
NONCE = 12
NAME = 20
"""Bytes of a chunk's name, the length of its hash."""
KEY_ID = 8
NOT_ENCRYPTED = (
    "this content is not encrypted, although WFDASH_ENCRYPTION_KEYS is set. If it was stored before that, "
    "add plain to WFDASH_ENCRYPTION_KEYS, run rotate_keys and remove plain again; "
    "otherwise it was written without your keys: restore the row from a backup"
)
NO_KEYS = (
    "WFDASH_ENCRYPTION_KEYS: give a list of texts, each one key without a comma, or a text with commas between keys"
)
OTHER_KEY = "this content is encrypted with key {key}: add that key to WFDASH_ENCRYPTION_KEYS"


LOCKED = (
    "The content of this database is encrypted with key {key}, which this process does not have: without it content "
    "cannot be read, and what is written others could not read. Set WFDASH_ENCRYPTION_KEYS as the other processes "
    "have it, with that key in the list. A key may leave the list once 'wfdash manage rotate_keys' has said that "
    "everything uses the first one"
)
UNENCRYPTED = (
    "This database has content that is not encrypted, but WFDASH_ENCRYPTION_KEYS takes none. If encryption is to be "
    "turned on, add plain to the list, run 'wfdash manage rotate_keys', then take plain out again. Otherwise this is "
    "not the process's database, or not its keys"
)


class Locked(Incompatible, Unreadable):
    """The stored content cannot be decrypted with the configured keys: the message says what to add."""


class NotEncrypted(Locked):
    """Stored content was not encrypted although keys are set: someone without the keys wrote it, or it is older.

    If it was stored before encryption was turned on, add ``plain`` to ``WFDASH_ENCRYPTION_KEYS``, run ``rotate_keys``
    and take ``plain`` out again. If not, restore the row from a backup.
    """


class Cipher(Protocol):
    """One key. A row is named by a few texts; ``name`` is what a chunk is stored under."""

    id: str

    def encrypt(self, data: bytes, row: bytes, nonce: bytes) -> bytes:
        """Return the ciphertext."""

    def decrypt(self, data: bytes, row: bytes) -> bytes:
        """Return the plaintext. ``Damaged``."""

    def name(self, family: str, key: str) -> str:
        """Return the stored name of the chunk with that hash in that family."""

    def nonce_for(self, family: str, key: str) -> bytes:
        """Return the nonce of that chunk: the same content gets the same bytes, other content never does."""


class AesGcm:
    """AES-256-GCM with keys derived from a secret."""

    def __init__(self, secret: str) -> None:
        """``InvalidConfig`` for a short secret, or if the ``cryptography`` package is not installed."""
        if len(secret) < MIN_KEY_LENGTH:
            raise InvalidConfig(f"WFDASH_ENCRYPTION_KEYS: a key needs at least {MIN_KEY_LENGTH} characters")
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
        """Return 40 hex digits that reveal nothing about the chunk without the key."""
        return self._mac("name", family, key).hex()

    def nonce_for(self, family: str, key: str) -> bytes:
        """Return 12 bytes."""
        return self._mac("nonce", family, key)[:NONCE]

    def _mac(self, *parts: str) -> bytes:
        return hmac.digest(self._names, row_identity(*parts), "sha256")[:NAME]


class NoCipher:
    """The cipher that does nothing; only a text that looks encrypted is wrapped."""

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
        """Return an empty nonce."""
        return b""


class Encryptor:
    """A ring of keys: the first one encrypts, all decrypt."""

    def __init__(self, ciphers: Sequence[Cipher]) -> None:
        self._first = ciphers[0]
        self._is_plain = ciphers[0].id == PLAIN
        self._ciphers = {cipher.id: cipher for cipher in ciphers}
        self.active = any(cipher.id != PLAIN for cipher in ciphers)
        """Whether anything is or was encrypted."""
        self.strict = PLAIN not in self._ciphers
        """Whether content that is not encrypted is refused."""
        self.first = self._first.id
        """The id of the key that encrypts."""

    def encrypt(self, text: str, *row: str) -> str:
        """Return the text encrypted for that row."""
        if self._is_plain:
            return wrap_plain(text) if text.startswith(MARK) else text
        data = self._first.encrypt(text.encode(), row_identity(*row), secrets.token_bytes(NONCE))
        return f"{MARK}{self._first.id}:{b64encode(data).decode()}"

    def decrypt(self, text: str, *row: str) -> str:
        """Return the decrypted text. ``Damaged``; ``Locked`` if its key is not in the ring."""
        if not text.startswith(MARK):
            self._cipher(PLAIN, row)
            return text
        key, _, body = text[len(MARK) :].partition(":")
        try:
            data = b64decode(body, validate=True)
        except ValueError:
            raise Damaged("the encrypted content was altered") from None
        return self._cipher(key, row).decrypt(data, row_identity(*row)).decode()

    def is_current(self, text: str) -> bool:
        """Return whether it is encrypted with the first key."""
        return key_of(text) == self._first.id

    def problem(self, needed: Iterable[str]) -> str:
        """Return which of these ids of keys is not in the ring, and what to do; empty if all are."""
        missing = [key for key in needed if key not in self._ciphers]
        if not missing:
            return ""
        return UNENCRYPTED if missing == [PLAIN] else LOCKED.format(key=next(key for key in missing if key != PLAIN))

    def changes(self, text: str) -> bool:
        """Return whether ``encrypt_document`` returns something else than the text."""
        return not self._is_plain or MARK in text

    def encrypt_document(self, text: str, *row: str, clear: Collection[str] = ()) -> str:
        """Return the encrypted document as JSON text. Entries named ``clear`` of a dict stay readable beside it."""
        if not self.changes(text):
            return text
        encrypted = wrap_plain(text) if self._is_plain else self.encrypt(text, *row)
        document = loads(text)
        if not clear or not isinstance(document, dict):
            return dumps(encrypted).decode()
        shown = {name: value for name, value in document.items() if name in clear}
        return dumps({**shown, ENCRYPTED_KEY: encrypted}).decode()

    def decrypt_document(self, text: str, *row: str) -> str:
        """Return the decrypted JSON text. ``Damaged``, ``Locked``."""
        encrypted = encrypted_text_in(loads(text)) if MARK in text else None
        if encrypted is None:
            self._cipher(PLAIN, row)
            return text
        return self.decrypt(encrypted, *row)

    def encrypt_chunk(self, data: bytes, family: str, key: str) -> bytes:
        """Return the encrypted bytes of a chunk; the same content gets the same bytes."""
        if self._is_plain:
            return data
        row = row_identity("chunk", family, self.name(family, key))
        encrypted = self._first.encrypt(data, row, self._first.nonce_for(family, key))
        return CHUNK_MARK + self._first.id.encode() + encrypted

    def encrypt_chunks(self, chunks: Mapping[str, bytes], family: str) -> Mapping[str, bytes]:
        """Return chunks by hash as they are stored, by name."""
        if self._is_plain:
            return chunks
        return {self.name(family, key): self.encrypt_chunk(data, family, key) for key, data in chunks.items()}

    def decrypt_chunk(self, data: bytes, family: str, name: str) -> bytes:
        """Return the decrypted bytes of the chunk stored under that name. ``Damaged``, ``Locked``."""
        if not data.startswith(CHUNK_MARK):
            self._cipher(PLAIN, ("chunk", family, name))
            return data
        start = len(CHUNK_MARK) + KEY_ID
        cipher = self._cipher(data[len(CHUNK_MARK) : start].decode(errors="replace"), ("chunk", family, name))
        return cipher.decrypt(data[start:], row_identity("chunk", family, name))

    def is_current_chunk(self, data: bytes) -> bool:
        """Return whether it is encrypted with the first key."""
        start = len(CHUNK_MARK)
        key = data[start : start + KEY_ID].decode(errors="replace") if data.startswith(CHUNK_MARK) else PLAIN
        return key == self._first.id

    def name(self, family: str, key: str) -> str:
        """Return the name a chunk is stored under."""
        return self._first.name(family, key)

    def names(self, family: str, keys: Iterable[str]) -> dict[str, str]:
        """Return the hash by every name under which one of these chunks may be stored."""
        return {cipher.name(family, key): key for key in keys for cipher in self._ciphers.values()}

    def _cipher(self, key: str, row: Sequence[str]) -> Cipher:
        if key in self._ciphers:
            return self._ciphers[key]
        which = " ".join(row)
        if key == PLAIN:
            raise NotEncrypted(f"{which}: {NOT_ENCRYPTED}", row=which)
        raise Locked(f"{which}: {OTHER_KEY.format(key=key)}", row=which, key=key)


def key_of(text: str) -> str:
    """Return the id of the key that a stored text is encrypted with, ``plain`` if it is not."""
    return text[len(MARK) :].partition(":")[0] if text.startswith(MARK) else PLAIN


def wrap_plain(text: str) -> str:
    """Return a plain text that looks encrypted, marked so that it decrypts to itself."""
    return f"{MARK}{PLAIN}:{b64encode(text.encode()).decode()}"


def encrypted_text_in(document: object) -> str | None:
    """Return the encrypted text that a stored document is or contains, None if it is plain text."""
    held = document.get(ENCRYPTED_KEY) if isinstance(document, dict) else document
    return held if isinstance(held, str) and held.startswith(MARK) else None


def derived(secret: str, purpose: str) -> bytes:
    """Return 32 bytes for one purpose (HKDF-SHA256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=f"wfdash {purpose}".encode()).derive(secret.encode())


def row_identity(*row: str) -> bytes:
    """Return a row's identity as bytes."""
    return "\x1f".join(row).encode()


def encryptor_of(keys: str | Sequence[str]) -> Encryptor:
    """Return the ring of a list of keys, or of a text with commas between them; without keys, the ring that encrypts
    nothing. ``InvalidConfig``.
    """
    return _ring_of(keys if isinstance(keys, str) else keys_in(keys))


def keys_in(setting: str | Sequence[str]) -> tuple[str, ...]:
    """Return the keys in a setting: a list, or a text with commas between them. ``InvalidConfig``."""
    if isinstance(setting, str):
        setting = setting.split(",")
    elif not isinstance(setting, (list, tuple)) or not all(isinstance(key, str) and "," not in key for key in setting):
        raise InvalidConfig(NO_KEYS)
    return tuple(key.strip() for key in setting if key.strip())


@lru_cache(maxsize=16)
def _ring_of(setting: str | tuple[str, ...]) -> Encryptor:
    keys = keys_in(setting)
    if keys != setting:
        return _ring_of(keys)
    return Encryptor([NoCipher() if name == PLAIN else AesGcm(name) for name in keys or (PLAIN,)])

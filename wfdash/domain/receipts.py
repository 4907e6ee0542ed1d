"""Receipts: what a person signed with their passkey when they answered, and whether it holds. Pure.

A receipt is a statement, the public key, and what the authenticator gave: nothing of an installation is needed to check
it. The authenticator signs the statement's SHA-256 as the challenge of WebAuthn.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from checkpoints.content.canonical_json import dumps

RECEIPT = "wfdash-receipt/1"
"""The format of a receipt."""
PARTS = ("public_key", "client_data", "authenticator_data", "signature")
"""What a receipt holds beside its statement, in base64url."""
MAX_PART_CHARACTERS = 10_000
UNREADABLE = "the receipt is incomplete or not readable"
ENTRY_NAMES = {
    "workflow": "workflow",
    "run": "run",
    "request": "request",
    "person": "actor",
    "card": "seen",
    "answer": "value",
    "reason": "reason",
    "stands": "stands",
    "for": "acting_for",
}
"""What a statement says, and under which names its entry in the audit, or the facts in that, say the same."""
USER_NAMES = ("username", "email")
"""The fields of a person that may hold their name."""


def challenge_of(statement: Mapping[str, Any]) -> bytes:
    """Return the 32 bytes that are signed for a statement."""
    return sha256(dumps(statement)).digest()


def key_name(public_key: str) -> str:
    """Return the fingerprint of a public key in base64url: 64 hexadecimal digits. ``ValueError``."""
    return sha256(_bytes(public_key)).hexdigest()


def signature_count(receipt: Mapping[str, Any]) -> int:
    """Return how often the authenticator says that it has signed; 0 if it does not count. ``ValueError``."""
    return int.from_bytes(_bytes(receipt["authenticator_data"])[33:37], "big")


def flaw_of(receipt: Any) -> str:
    """Return why a signature does not prove its statement, empty if it does. Whose the key is, it cannot say."""
    # Loaded only here: they take time, and most processes verify nothing.
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from fido2 import cbor
    from fido2.cose import CoseKey
    from fido2.webauthn import AuthenticatorData, CollectedClientData

    try:
        statement, host = receipt["statement"], receipt["statement"]["host"]
        key, written, device, signature = (_bytes(receipt[name]) for name in PARTS)
        public: Any = cbor.decode(key)
        client, data = CollectedClientData(written), AuthenticatorData(device)
        signed = client.type == "webauthn.get" and client.challenge == challenge_of(statement)
        if statement["format"] != RECEIPT or not signed:
            return "something else was signed"
        here = urlsplit(client.origin).hostname == host and data.rp_id_hash == sha256(host.encode()).digest()
        if not here or client.cross_origin:
            return "it was signed at another address"
        if not (data.is_user_present() and data.is_user_verified()):
            return "it was signed without PIN or biometrics"
        CoseKey.parse(public).verify(bytes(data) + client.hash, signature)
    except InvalidSignature:
        return "the signature does not hold"
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return UNREADABLE
    except (NotImplementedError, UnsupportedAlgorithm):
        return "the kind of its key is not supported"
    return ""


class ReceiptCheck:
    """Checks the receipts in a chain's entries, in their order: whose a key was then is said by the entries before.

    ``held``: how many hold, by person and key. ``strange``: the persons and keys that no entry before brings together.
    """

    def __init__(self) -> None:
        self.held, self.strange = Counter[tuple[str, str]](), set[tuple[str, str]]()
        self._keys = defaultdict[str, set[str]](set)
        # Of each key the number of its last receipt, and how often it had signed. No entry makes either fall again.
        self._last = dict[str, tuple[int, int]]()

    def flaw(self, entry: Mapping[str, Any], *, whole: bool) -> str:
        """Return why an entry's receipt does not prove the entry, empty if it does or there is none.

        ``whole``: no earlier entry is missing, so that a key that none of them added is not the person's.
        """
        facts, keys = entry["facts"], self._keys
        try:
            match entry["verb"].removeprefix("second factor: "):
                case "add passkey":
                    keys[facts["user"]].add(facts.get("key", ""))
                case "remove passkey" | "remove lost passkey":
                    keys[facts["user"]].discard(facts.get("key", ""))
                case "create user":
                    keys[facts["user"]] = set()
                case "change user":
                    # The old name stays, too: what changed may be an address, and is the name in some projects only.
                    for name in USER_NAMES:
                        if facts["before"].get(name) == facts["user"]:
                            keys[facts["after"][name]] = keys[facts["user"]]
            return self._receipt_flaw(entry, facts["receipt"], whole) if "receipt" in facts else ""
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return UNREADABLE

    def _receipt_flaw(self, entry: Mapping[str, Any], receipt: Any, whole: bool) -> str:
        if flaw := flaw_of(receipt):
            return flaw
        said, known, person = receipt["statement"], {**entry["facts"], **entry}, entry["actor"]
        if dumps(said) != dumps(said | {name: known[place] for name, place in ENTRY_NAMES.items()}):
            return "it was given for another decision"
        key, mine = key_name(receipt["public_key"]), self._keys[person]
        if key not in mine:
            # Passkeys from before receipts were added without a fingerprint.
            if whole and "" not in mine:
                return "its key was not the person's then"
            self.strange.add((person, key))
        (number, signs), now = self._last.get(key, (0, 0)), (said["counter"], signature_count(receipt))
        if now[0] <= number or 0 < signs >= now[1]:
            return "an earlier receipt has its number"
        self._last[key] = now
        self.held[person, key] += 1
        return ""


def trusted_keys(text: str) -> dict[str, list[str]]:
    """Return by its fingerprint whose each key is, of lines with a fingerprint and a name, or without: anyone's."""
    return {part[0].lower(): part[1:] for line in text.splitlines() if (part := line.split(maxsplit=1))}


def _bytes(text: str) -> bytes:
    from fido2.utils import websafe_decode

    if not isinstance(text, str) or len(text) > MAX_PART_CHARACTERS:
        raise ValueError("no base64url, or too long")
    return bytes(websafe_decode(text))

"""The hash chain of the audit: each entry's hash covers it and the hash of the previous one. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from checkpoints.content.canonical_json import dumps
from checkpoints.content.pickles import Keyring
from wfdash.values.schemas.secrets import masked

CHAINED = ("n", "at", "actor", "right", "verb", "workflow", "run", "request", "facts", "prev")
"""What an entry's hash covers, in this order."""
ACCOUNTS = (
    *("sign in", "sign out", "make sign-in link", "change password", "renew password hash"),
    *("create user", "change user", "delete user", "create group", "rename group", "delete group"),
    *("add to group", "remove from group", "add permission", "remove permission"),
    *("grant", "change grant", "revoke"),
    *("second factor: turn on", "second factor: renew recovery codes", "second factor: use recovery code"),
    *("second factor: remove", "end sessions"),
    *("second factor: add passkey", "second factor: rename passkey", "second factor: remove passkey"),
    *("create token", "revoke token", "create service account"),
    *("connect identity", "disconnect identity"),
)
"""Actions on accounts and rights: entries that administrators read, and each person their own."""
CONTENT = frozenset({"value", "edited", "proposal"})
"""Facts that contain values of a workflow."""
BROKEN = "chain broken"
"""What is recorded when the end of the chain cannot be verified."""


@dataclass(frozen=True)
class Break:
    """A flaw of a chain: the entry's number, and what is wrong with it."""

    n: int
    words: str
    locked: bool = False
    """Whether only a key that is missing keeps the entry from being checked."""


def hash_of(entry: Mapping[str, Any]) -> str:
    """Return the hash of an entry as it is exported."""
    return sha256(dumps([entry[name] for name in CHAINED])).hexdigest()


def breaks(entries: Iterable[Mapping[str, Any]], *, whole: bool = True, keys: Keyring | None = None) -> Iterator[Break]:
    """Yield the flaws of a chain of exported entries (with hash and signature), in order.

    ``whole``: it must start with the first entry and have no gap; else it is a selection, each entry verified
    separately. ``keys``: verify the signatures, too. Only the first entries may have none: they are older than signing.
    Of an entry without ``facts`` only links and signature can be verified.
    """
    before: Mapping[str, Any] | None = None
    signed = False
    for entry in entries:
        n = entry["n"]
        readable = "facts" in entry
        if readable and hash_of(entry) != entry["hash"]:
            yield Break(n, "the entry was changed after it was written")
        if readable and entry["verb"] == BROKEN:
            yield Break(n, f"problem when it was written: {entry['facts'].get('words')}")
        follows = before is not None and n == before["n"] + 1
        if whole and not (follows or (before is None and n == 1)):
            yield Break(n, f"entries before it are missing (the one before is {before['n'] if before else 'none'})")
        elif follows and before is not None and entry["prev"] != before["hash"]:
            yield Break(n, "it does not match the previous entry")
        signed = signed or bool(entry.get("signature"))
        signature = entry.get("signature", "")
        if keys and signed and (flaw := keys.flaw(signature, "entry", str(n), entry["hash"])):
            yield Break(n, f"it {flaw}", locked=keys.lacks(signature))
        before = entry


def masked_facts(facts: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return an entry's facts with the secrets in their content hidden."""
    return {name: masked(value, names) if name in CONTENT else value for name, value in facts.items()}


def shown_keys(entry: Mapping[str, Any]) -> list[str]:
    """Return the names under which the content that a person was shown is stored."""
    facts = entry["facts"]
    kinds = {"card": facts.get("seen"), "page": facts.get("page")}
    return [f"{entry['request']}:{kind}:{digest}" for kind, digest in kinds.items() if entry["request"] and digest]


def shown_flaw(key: str, body: str) -> str:
    """Return what is wrong with content stored under one of ``shown_keys``, empty if nothing is."""
    kind, digest = ["", "", *key.rsplit(":", 2)][-2:]
    if kind == "card" and _card_differs(body, digest):
        return "the card differs from the one shown"
    if kind == "page" and sha256(body.encode()).hexdigest() != digest:
        return "the page differs from the one shown"
    return ""


def shown_breaks(entries: Iterable[Mapping[str, Any]], kept: Mapping[str, str]) -> Iterator[Break]:
    """Yield where the stored content is not what the entries say people were shown.

    ``kept``: ``shown_flaw`` of each body, by its name.
    """
    for entry in entries:
        names = shown_keys(entry)
        # A deadline decides without a page or a person.
        if entry["facts"].get("via") and any(name not in kept for name in names):
            yield Break(entry["n"], "what was shown is missing")
        for name in names:
            if flaw := kept.get(name):
                yield Break(entry["n"], flaw)


def _card_differs(body: str, seen: str) -> bool:
    try:
        shown = json.loads(body)
        return bool(fingerprint(shown["card"], shown["answer_schema"]) != seen)
    except (ValueError, KeyError, TypeError):
        return True


def fingerprint(card: Mapping[str, Any], answer_schema: Mapping[str, Any]) -> str:
    """Return 64 hexadecimal digits that change with any part of the card or of the form."""
    return sha256(dumps([card, answer_schema])).hexdigest()

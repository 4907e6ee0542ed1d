"""The arithmetic of the audit chain: each entry's hash covers it and the hash of the one before. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from checkpoints.canonical import dumps
from wfdash.seen import fingerprint

CHAINED = ("n", "at", "actor", "right", "verb", "workflow", "run", "request", "facts", "prev")
"""What an entry's hash covers, in this order."""
PACK = "wfdash-audit/1"
"""The format of an exported pack."""


@dataclass(frozen=True)
class Break:
    """Where a chain does not hold: the entry's number, and what is wrong with it."""

    n: int
    words: str


def hash_of(told: Mapping[str, Any]) -> str:
    """Return the hash of an entry as it is exported."""
    return sha256(dumps([told[name] for name in CHAINED])).hexdigest()


def breaks(entries: Iterable[Mapping[str, Any]], *, whole: bool = True) -> Iterator[Break]:
    """Yield what does not hold in a chain of exported entries (with their ``hash``), in order.

    ``whole``: it must begin with the first entry and have no gap; else it is a selection, each entry proven by itself.
    """
    before: Mapping[str, Any] | None = None
    for entry in entries:
        n = entry["n"]
        if hash_of(entry) != entry["hash"]:
            yield Break(n, "the entry was changed after it was written")
        follows = before is not None and n == before["n"] + 1
        if whole and not (follows or (before is None and n == 1)):
            yield Break(n, f"entries before it are missing (the one before is {before['n'] if before else 'none'})")
        elif follows and before is not None and entry["prev"] != before["hash"]:
            yield Break(n, "it does not follow from the entry before it")
        before = entry


def pack_breaks(pack: Mapping[str, Any]) -> Iterator[Break]:
    """Yield what does not hold in an exported pack: its entries, and what they say was shown.

    ``ValueError`` if it is no pack.
    """
    if pack.get("format") != PACK:
        raise ValueError(f"format is {pack.get('format')!r}, not {PACK!r}: this is no audit pack of wfdash")
    yield from breaks(pack["entries"], whole=pack["whole"])
    for entry in pack["entries"]:
        for words in _shown_otherwise(entry, pack["shown"]):
            yield Break(entry["n"], words)


def _shown_otherwise(entry: Mapping[str, Any], shown: Mapping[str, str]) -> Iterator[str]:
    facts = entry["facts"]
    card = shown.get(f"{entry['request']}:card:{facts.get('seen')}")
    if card is not None:
        told = json.loads(card)
        if fingerprint(told["card"], told["answer_schema"]) != facts["seen"]:
            yield "the card in this pack is not the one that was shown"
    page = shown.get(f"{entry['request']}:page:{facts.get('page')}")
    if page is not None and sha256(page.encode()).hexdigest() != facts["page"]:
        yield "the page in this pack is not the one that was shown"

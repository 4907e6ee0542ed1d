"""The hash chain of the audit, and exported packs of it. Pure.

Each entry's hash covers it and the hash of the previous one. Packs are written and verified entry by entry, in bounded
memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TextIO

from checkpoints.content.canonical_json import dumps
from checkpoints.content.pickles import Keyring
from checkpoints.records import frozen
from wfdash.domain.labels import escaped
from wfdash.domain.receipts import ReceiptCheck
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
    "second factor: remove lost passkey",
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


def breaks(
    entries: Iterable[Mapping[str, Any]], receipts: ReceiptCheck, *, whole: bool = True, keys: Keyring | None = None
) -> Iterator[Break]:
    """Yield the flaws of a chain of exported entries (with hash and signature), in order.

    ``whole``: it must start with the first entry and have no gap; else it is a selection, each entry verified
    separately. ``keys``: verify the signatures, too. Only the first entries may have none: they are older than signing.
    Of an entry without ``facts`` only links and signature can be verified.
    """
    before: Mapping[str, Any] | None = None
    signed, known = False, whole
    for entry in entries:
        n = entry["n"]
        readable = "facts" in entry
        known = known and readable
        if readable and hash_of(entry) != entry["hash"]:
            yield Break(n, "the entry was changed after it was written")
        if readable and entry["verb"] == BROKEN:
            yield Break(n, f"problem when it was written: {entry['facts'].get('words')}")
        if readable and (flaw := receipts.flaw(entry, whole=known)):
            yield Break(n, f"its receipt does not hold: {flaw}")
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
    if kind == "card" and card_differs(body, digest):
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


def card_differs(shown: Any, seen: str) -> bool:
    """Return whether a card and its form, read or as JSON, are not those with this fingerprint."""
    try:
        shown = json.loads(shown) if isinstance(shown, str) else shown
        return bool(fingerprint(shown["card"], shown["answer_schema"]) != seen)
    except (ValueError, LookupError, TypeError, RecursionError):
        return True


def fingerprint(card: Mapping[str, Any], answer_schema: Mapping[str, Any]) -> str:
    """Return 64 hexadecimal digits that change with any part of the card or of the form."""
    return sha256(dumps([card, answer_schema])).hexdigest()


PACK = "wfdash-audit/2"
"""The format of an exported pack."""
UNSIGNED_PACK = "wfdash-audit/1"
"""The format of packs from before packs were signed."""
APART = ("entries", "shown", "signature")
"""Parts of a pack that do not describe it."""
MAX_DOCUMENT_CHARACTERS = 20_000_000
PIECE = 64_000
"""Bytes of a pack that are sent at a time; more for a longer single value."""


class PackDigest:
    """The hash of a whole pack, updated part by part: its entries in order, then what was shown by name.

    It is SHA-256 of ``[everything but shown and signature, {name: SHA-256 of what was shown}]``, as JSON with its keys
    sorted.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        first = [_member(name, about[name]) + ", " for name in sorted(about) if name < "entries"]
        self._rest = "".join(", " + _member(name, about[name]) for name in sorted(about) if name > "entries")
        self._hash = sha256(f'[{{{"".join(first)}"entries": ['.encode())
        self._between, self._showing = "", False

    def add_entry(self, entry: Mapping[str, Any]) -> None:
        """Add the next entry."""
        self._add_text(json.dumps(entry, sort_keys=True))

    def add_shown(self, name: str, digest: str) -> None:
        """Add the hash of something shown; in the order of their names, after all entries."""
        self._start_shown()
        self._add_text(_member(name, digest))

    def end(self) -> str:
        """Return the hash; call it once."""
        self._start_shown()
        self._hash.update(b"}]")
        return self._hash.hexdigest()

    def _add_text(self, text: str) -> None:
        self._hash.update(f"{self._between}{text}".encode())
        self._between = ", "

    def _start_shown(self) -> None:
        if not self._showing:
            self._hash.update(f"]{self._rest}}}, {{".encode())
            self._between, self._showing = "", True


def write_pack(
    about: Mapping[str, Any],
    entries: Iterable[Mapping[str, Any]],
    shown: Callable[[list[str]], Iterable[tuple[str, str]]],
    keys: Keyring,
) -> Iterator[bytes]:
    """Yield a signed pack as JSON, a piece at a time.

    ``about``: everything else in it. ``shown(names)``: what was shown under these names, in their order. Of what has
    been sent only the names of what was shown stay in memory.
    """

    def parts() -> Iterator[bytes]:
        digest, names, comma = PackDigest(about), set[str](), b""
        yield b"{" + b"".join(_bytes(name) + b": " + _bytes(value) + b", " for name, value in about.items())
        yield b'"entries": ['
        for entry in entries:
            digest.add_entry(entry)
            names.update(shown_keys(entry))
            yield comma + _bytes(entry)
            comma = b", "
        yield b'], "shown": {'
        comma = b""
        for name, body in shown(sorted(names)):
            digest.add_shown(name, sha256(body.encode()).hexdigest())
            yield comma + _bytes(name) + b": " + _bytes(body)
            comma = b", "
        yield b'}, "signature": ' + _bytes(keys.sign("pack", digest.end())) + b"}"

    return _in_pieces(parts())


def _in_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


@frozen
class Proof:
    """The result of verifying a pack, and what a later one has to continue.

    ``head``: number and hash of the last entry. ``entries``: number -> hash. ``breaks``: what is wrong. ``receipts``:
    how many hold.
    """

    format: str
    head: Mapping[str, Any]
    whole: bool
    entries: Mapping[int, str]
    breaks: tuple[Break, ...]
    receipts: ReceiptCheck


def prove_pack(open_: Callable[[], TextIO], *, keys: Keyring | None = None) -> Proof:
    """Return the result of verifying a pack: its entries, links, end, and shown content. Reads it twice, value by
    value.

    ``keys``: also verify that this installation wrote all of it. ``ValueError``, ``KeyError``, ``TypeError`` or
    ``AttributeError`` if it is no pack.
    """
    with open_() as file:
        about = _read_about(JsonStream(file))
    if about.get("format") not in {PACK, UNSIGNED_PACK}:
        raise ValueError(f"format is {about.get('format')!r}, not {PACK!r}: not a wfdash audit pack")
    with open_() as file:
        return _Reading(about, keys).proof(JsonStream(file))


def document_in(open_: Callable[[], TextIO], kind: str) -> Any:
    """Return the receipt or report of this format that a file holds, None if it holds something else."""
    try:
        with open_() as file:
            text = file.read(MAX_DOCUMENT_CHARACTERS)
        found = json.loads(text) if len(text) < MAX_DOCUMENT_CHARACTERS else {}
        return found if found.get("statement", found)["format"].startswith(kind) else None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def continuity_breaks(old: Proof, new: Proof) -> Iterator[Break]:
    """Yield where a later pack does not continue an earlier one of the same installation."""
    end, now = old.head, new.head
    if now["n"] < end["n"]:
        yield Break(end["n"], f"the newer pack ends earlier, with {now['n']}")
    earlier = {**old.entries, end["n"]: end["hash"]}
    for n, digest in sorted(earlier.items()):
        if n in new.entries and new.entries[n] != digest:
            yield Break(n, "replaced by another entry in the newer pack")
        elif n and n not in new.entries and new.whole:
            yield Break(n, "missing in the newer pack")


class _Reading:
    """One pass through a pack whose header is known."""

    def __init__(self, about: Mapping[str, Any], keys: Keyring | None) -> None:
        header = {name: value for name, value in about.items() if name not in APART}
        self._about, self._keys, self._digest = about, keys, PackDigest(header)
        self._head: dict[str, Any] = about["head"] or {"n": 0, "hash": ""}
        self._last: dict[str, Any] = {"n": 0, "hash": ""}
        self._entries: dict[int, str] = {}
        self._showing: list[dict[str, Any]] = []
        self._kept: dict[str, str] = {}
        self._hashes: dict[str, str] = {}

    def proof(self, stream: JsonStream) -> Proof:
        found, receipts = list[Break](), ReceiptCheck()
        for name in stream.members():
            if name == "entries":
                entries = self._taken_in(stream.items())
                found += breaks(entries, receipts, whole=self._about["whole"], keys=self._keys)
            elif name == "shown":
                self._take_in_shown(stream)
            else:
                stream.value()
        found += shown_breaks(self._showing, self._kept)
        found += [*self._end_breaks(), *self._signature_breaks()]
        about = self._about
        facts: dict[str, Any] = {"format": about["format"], "whole": bool(about["whole"]), "head": self._head}
        return Proof(**facts, entries=self._entries, breaks=tuple(found), receipts=receipts)

    def _taken_in(self, entries: Iterable[Any]) -> Iterator[Any]:
        for entry in entries:
            self._digest.add_entry(entry)
            self._last = {"n": entry["n"], "hash": entry["hash"]}
            self._entries[entry["n"]] = entry["hash"]
            if shown_keys(entry):
                facts = {name: entry["facts"].get(name) for name in ("seen", "page", "via")}
                self._showing.append({"n": entry["n"], "request": entry["request"], "facts": facts})
            yield entry

    def _take_in_shown(self, stream: JsonStream) -> None:
        for name in stream.members():
            body = stream.value()
            if name in self._kept:
                raise ValueError(f"{name!r} is shown twice")
            self._kept[name] = shown_flaw(name, body)
            self._hashes[name] = sha256(body.encode()).hexdigest()

    def _end_breaks(self) -> Iterator[Break]:
        about, head, last = self._about, self._head, self._last
        if about["whole"] and head != last:
            yield Break(head["n"], f"the end is missing: the last entry in the pack is {last['n']}")
        if head["n"] < last["n"]:
            yield Break(last["n"], f"it comes after the end, which is said to be {head['n']}")
        if not about["whole"] and not about["filter"].strip() and about.get("scope", "all") == "all":
            yield Break(0, "the pack has gaps, although nothing was filtered")

    def _signature_breaks(self) -> Iterator[Break]:
        for name, digest in sorted(self._hashes.items()):
            self._digest.add_shown(name, digest)
        signature = self._about.get("signature", "")
        if self._keys and (flaw := self._keys.flaw(signature, "pack", self._digest.end())):
            yield Break(0, f"the pack {flaw}", locked=self._keys.lacks(signature))


def _read_about(stream: JsonStream) -> dict[str, Any]:
    """Return the header of a pack, without entries and shown content. ``ValueError``: a missing or duplicate part."""
    about, seen = dict[str, Any](), set[str]()
    for name in stream.members():
        if name in seen:
            raise ValueError(f"it has {name!r} twice")
        seen.add(name)
        if name == "entries":
            for _ in stream.items():
                pass
        elif name == "shown":
            for _ in stream.members():
                stream.value()
        else:
            about[name] = stream.value()
    stream.end()
    if missing := {"entries", "shown"} - seen:
        raise ValueError(f"it has no {' and no '.join(sorted(missing))}")
    return about


def _member(name: str, value: Any) -> str:
    return f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}"


def _bytes(value: Any) -> bytes:
    # Lone surrogates are escaped, too: there are some from before they were refused.
    return escaped(json.dumps(value, ensure_ascii=False)).encode()


# Reads a JSON document from a file value by value, so that a long one needs little memory. Pure.

PART = 256_000
"""Characters read at a time; more for a longer single value."""
AFTER = frozenset(" \t\r\n,:]}")
"""What may follow a value."""


class JsonStream:
    """One JSON document, read from start to end. ``ValueError`` where it is not valid."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._decoder = file, json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False

    def value(self) -> Any:
        """Return the next whole value."""
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except ValueError:
                if self._ended:
                    raise
            else:
                # A number may continue after the part that was read.
                if self._text[end : end + 1] in AFTER or self._ended:
                    self._at = end
                    return value
            self._read()

    def items(self) -> Iterator[Any]:
        """Yield each value of the next array."""
        self._expect("[")
        if self._peek() != "]":
            yield self.value()
            while self._peek() == ",":
                self._expect(",")
                yield self.value()
        self._expect("]")

    def members(self) -> Iterator[str]:
        """Yield each name of the next object; its value must be read before the next name."""
        self._expect("{")
        if self._peek() != "}":
            yield self._member_name()
            while self._peek() == ",":
                self._expect(",")
                yield self._member_name()
        self._expect("}")

    def end(self) -> None:
        """Raise unless the document ends here."""
        if found := self._peek():
            raise ValueError(f"{found!r} found after the end of the document")

    def _member_name(self) -> str:
        name = self.value()
        if not isinstance(name, str):
            raise ValueError(f"{name!r:.50} found where a name was expected")
        self._expect(":")
        return name

    def _expect(self, wanted: str) -> None:
        found = self._peek()
        if found != wanted:
            raise ValueError(f"{found or 'the end'!r} found where {wanted!r} was expected")
        self._at += 1

    def _peek(self) -> str:
        """Return the next character that is not blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\r\n":
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._read()

    def _read(self) -> None:
        rest = self._text[self._at :]
        # Twice as much each time: a long value is parsed a few times, not once for each part.
        part = self._file.read(max(PART, len(rest)))
        self._text, self._at, self._ended = rest + part, 0, not part

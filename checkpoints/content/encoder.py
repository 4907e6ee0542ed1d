"""Encoder from a JSON value to chunks; entries that did not change since the last call are not encoded again.

A checkpoint's content is ``{"body": {"state": {...}, "position": {...}}, "requests": [...]}``. Down to the state's keys
every dict is encoded entry by entry, and each encoded entry is kept for the next call. So are, some levels further
down, dicts and lists of long items: documents by name, messages, and the calls of a step that is in progress.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, compress
from operator import is_not
from threading import Lock
from typing import Any, NamedTuple

from checkpoints.content.canonical_json import dumps
from checkpoints.content.chunks import (
    FANOUT,
    INLINE,
    LEAF,
    Leaf,
    ListPart,
    Pages,
    Part,
    digest,
    groups,
    inner,
    joined,
    key_text,
    list_part,
    named,
    stored,
    text_leaf,
    tree,
    with_digest,
)
from checkpoints.ids import CheckpointId, RunId
from checkpoints.records import Commit, frozen, value_object

# Cache of the latest big checkpoint of each run as it was encoded, so that unchanged chunks are not written again.

MAX_RUNS = 512
"""Runs in the cache at most; the least recently written is evicted first."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of state (as JSON) in the cache at most."""


@frozen
class CachedEncoding:
    """The encoding of a stored checkpoint."""

    id: CheckpointId
    known: EncodedDict
    size: int


class EncoderCache:
    """Encodings by run; thread-safe."""

    def __init__(self, *, runs: int = MAX_RUNS, max_bytes: int = MAX_BYTES) -> None:
        self._runs = runs
        self._budget = max_bytes
        self._size = 0
        self._cached: OrderedDict[RunId, CachedEncoding] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        """Return the number of cached runs."""
        return len(self._cached)

    def get(self, run: RunId) -> CachedEncoding | None:
        """Return the run's cached encoding, None if there is none."""
        return self._cached.get(run)

    def update(self, commit: Commit, encoded: Encoded | None) -> None:
        """Cache what a commit has stored; a run whose drive ends is evicted."""
        if commit.standing is not None:
            self.forget(commit.run)
        elif commit.checkpoint is not None and encoded is not None and encoded.known is not None:
            self._put(commit.run, CachedEncoding(id=commit.checkpoint.id, known=encoded.known, size=encoded.size))
        elif commit.checkpoint is not None and commit.run in self._cached:
            self.forget(commit.run)

    def forget(self, run: RunId) -> None:
        """Evict a run: its next checkpoint is written in full."""
        with self._lock:
            self._drop(run)

    def _put(self, run: RunId, head: CachedEncoding) -> None:
        with self._lock:
            self._drop(run)
            self._cached[run] = head
            self._size += head.size
            while len(self._cached) > self._runs or self._size > self._budget:
                self._drop(next(iter(self._cached)))

    def _drop(self, run: RunId) -> None:
        head = self._cached.pop(run, None)
        if head is not None:
            self._size -= head.size


# The encoder: down to a checkpoint's state each entry of a dict by itself, and the items of long lists.

Json = Any

DEPTH = 2
"""Dicts down to this depth are encoded entry by entry: a checkpoint's state and position are there."""
DEEPEST = 4
"""The depth of a dict whose entries are at most looked into: a step in progress, with a list of its calls."""
MAX_IN_PLACE = 8
"""Entries that a dict above the state may have to be written in place."""
UNBOUNDED = 2**62
"""Bytes that no value has."""


@value_object()
class EncodedEntry:
    """An encoded entry of a dict, and what is needed to detect that its value has not changed."""

    name: bytes
    """Its key as JSON."""
    value: Json
    """The object itself, if it is never changed in place (long texts never are); else ``NOT_KEPT``."""
    print: str
    """The hash of its JSON, if that is long."""
    text: bytes
    """``"key":json``, or a node."""
    is_node: bool
    length: int
    """Bytes of ``"key":json``."""
    mark: int
    inner: frozenset[str] = frozenset()
    """The chunks of a long value, without those of entries and items that are encoded each by itself."""
    leaves: tuple[Leaf, ...] = ()
    """Those of a long text, in order."""
    items: Sequence[EncodedItem] = ()
    """Those of a list of long items."""
    nested: EncodedDict | None = None
    """Of a dict that was encoded entry by entry."""


class EncodedItem(NamedTuple):
    """An item of a list: the object itself, as that of an entry, its JSON, its part of the list and its chunks."""

    value: Json
    text: bytes
    part: ListPart
    inner: frozenset[str]


NOT_KEPT = object()
NEW = EncodedEntry(b"", NOT_KEPT, "", b"", False, 0, 0)
"""Before a key had a value."""


@value_object()
class EncodedDict:
    """A dict encoded entry by entry."""

    entries: Mapping[str, EncodedEntry]
    node: bytes = b""
    size: int = 0
    """Bytes of its JSON."""
    levels: MerkleLevels | None = None
    """None if it is written in place."""
    values: tuple[Json, ...] = ()
    """The values of its entries then, in order."""


NO_ENTRIES = EncodedDict({})


@value_object(kw_only=True)
class Encoded:
    """A value as text: its payload, the chunks it needs, and the bytes of the value's plain JSON."""

    payload: bytes
    """What a root says after its digest, which is made last: of the row and of this."""
    chunks: dict[str, bytes]
    size: int
    known: EncodedDict | None = None
    """``known`` for the next call of ``encode``, once this is stored."""
    reuses_chunks: bool = False
    """Whether chunks were left out because they are stored already."""

    @property
    def root(self) -> str:
        """The root of the value in no row."""
        return with_digest(self.payload)


class TooMuchToEncode(Exception):
    """More bytes of a value are new than were to be encoded here."""


def encode(value: Json, *, known: EncodedDict | None = None, frozen: bool = False, most: int = UNBOUNDED) -> Encoded:
    """Return the value as text. ``ValueError`` if it is not valid JSON (NaN, foreign types).

    ``known``: from an earlier stored value; unchanged entries yield no chunks again. ``frozen``: no part of the value
    is ever changed in place, so an object that was encoded before is not compared again. ``TooMuchToEncode`` once it is
    known that more than ``most`` bytes have to be.
    """
    # What may be of any size is rarely short, so it is not written as one text first.
    if isinstance(value, dict) and (known is not None or most == UNBOUNDED):
        walk = EncodingPass(frozen, most)
        made = walk.encode_dict(value, 0, known or NO_ENTRIES, walk.chunks)
        if made.size > INLINE:
            return walk.encoded(made.node, made.size, made)
    text = dumps(value)
    if len(text) <= INLINE:
        return Encoded(payload=text, chunks={}, size=len(text))
    if len(text) > most:
        raise TooMuchToEncode
    if isinstance(value, dict):
        return encode(value, frozen=frozen)
    walk = EncodingPass(frozen)
    return walk.encoded(tree(value, text, walk.chunks), len(text), None)


class EncodingPass:
    """One encoding of a big value."""

    def __init__(self, frozen: bool, most: int = UNBOUNDED) -> None:
        self.chunks: dict[str, bytes] = {}
        self._left = most
        self._frozen = frozen
        self._reuses_chunks = False

    def encoded(self, node: bytes, size: int, known: EncodedDict | None) -> Encoded:
        """Return the result of the pass."""
        payload, reuses = b"@" + node, self._reuses_chunks
        return Encoded(payload=payload, chunks=self.chunks, size=size, known=known, reuses_chunks=reuses)

    def encode_dict(
        self, value: dict[str, Json], depth: int, before: EncodedDict, chunks: dict[str, bytes]
    ) -> EncodedDict:
        """Return a dict as encoded. ``before``: as it was the last time."""
        if before.levels is not None and (self._frozen or depth > DEPTH):
            quick = self._replace_entries(value, depth, before, chunks)
            if quick is not None:
                return quick
        entries, inner, size = dict[str, EncodedEntry](), dict[str, bytes](), 1 + max(len(value), 1)
        for key, item in value.items():
            entry = before.entries.get(key, NEW)
            if entry.value is item and (self._frozen or type(item) is str):
                self._reuses_chunks |= entry.is_node
            else:
                entry = self._entry(key, item, depth, entry, chunks)
            entries[key] = entry
            size += entry.length
        if depth < DEPTH and len(entries) <= MAX_IN_PLACE:
            return EncodedDict(entries, in_place(entries.values()), size)
        levels = build_levels(in_pages(entries.values(), inner), inner)
        self._add_new(inner, before.levels.inner if before.levels is not None else frozenset(), chunks)
        values = tuple([entry.value for entry in entries.values()])
        return EncodedDict(entries, levels.node, size, levels, values)

    def _replace_entries(
        self, value: dict[str, Json], depth: int, before: EncodedDict, chunks: dict[str, bytes]
    ) -> EncodedDict | None:
        """Return a dict of the same keys, few of whose values changed; None for any other dict."""
        keys, levels = list(value), before.levels
        if levels is None or keys != list(before.entries):
            return None
        entries = dict(before.entries)
        changed: dict[int, bytes] = {}
        size, values, known = before.size, tuple(value.values()), before.values
        if not self._frozen:
            known = tuple([item if type(item) is str else NOT_KEPT for item in known])
        for place in compress(range(len(keys)), map(is_not, values, known)):
            key = keys[place]
            old = entries[key]
            entries[key] = entry = self._entry(key, values[place], depth, old, chunks)
            if entry.is_node != old.is_node:
                return None
            size += entry.length - old.length
            changed[bisect_right(levels.pages, place)] = entry.text if entry.is_node else b""
        new, dirty = dict[str, bytes](), [at for at, node in changed.items() if not node]
        ordered = [*entries.values()] if dirty else []
        for at in dirty:
            end = levels.pages[at]
            pages = in_pages(ordered[levels.pages[at - 1] if at else 0 : end], new)
            page = pages.page(last=end == len(ordered) or ordered[end].is_node)
            if page is None:
                return None
            changed[at] = page
        chunks.update(new)
        levels = levels.replaced([*changed.items()], chunks)
        self._reuses_chunks = True
        if not self._frozen:
            values = tuple([entry.value for entry in entries.values()])
        return EncodedDict(entries, levels.node, size, levels, values)

    def _entry(self, key: str, item: Json, depth: int, before: EncodedEntry, chunks: dict[str, bytes]) -> EncodedEntry:
        """Return an entry of a dict at this depth."""
        name, mark = (before.name, before.mark) if before.name else (key_text(key), zlib.crc32(key.encode()))
        if type(item) is str and len(item) > LEAF:
            return self._encode_text(name, item, mark, before, chunks)
        value = item if self._frozen else NOT_KEPT
        # What was long is not written as one text first, which would cost as much as encoding all of its items.
        size = before.length if before.nested is not None or before.items else 0
        if before is NEW and depth < DEPTH and isinstance(item, dict):
            size = LEAF + 1  # Maybe: an inner entry that turns out to be short is none.
        text = b"" if size else dumps(item)
        size = size or len(text)
        entry = None
        if isinstance(item, dict) and ((size > LEAF and depth < DEPTH) or are_long_items(item, depth, size)):
            entry = self._encode_inner(name, item, depth, mark, before, chunks)
        elif type(item) is list and are_long_items(item, depth, size):
            entry = self._encode_list(name, item, mark, before, chunks)
        if entry is not None:
            return entry
        text = text or dumps(item)
        length = len(name) + 1 + len(text)
        self._spend(length)
        if len(text) <= LEAF:
            return EncodedEntry(name, value, "", name + b":" + text, False, length, mark)
        print_ = digest(text)
        if before.print == print_:
            self._reuses_chunks = True
            return EncodedEntry(name, value, print_, before.text, True, length, mark, before.inner)
        own = dict[str, bytes]()
        node = named(name, stored(tree(item, text, own), own))
        self._add_new(own, before.inner, chunks)
        return EncodedEntry(name, value, print_, node, True, length, mark, frozenset(own))

    def _encode_inner(
        self,
        name: bytes,
        item: dict[str, Json],
        depth: int,
        mark: int,
        before: EncodedEntry,
        chunks: dict[str, bytes],
    ) -> EncodedEntry | None:
        """Return the entry of a dict that is encoded entry by entry, None if it is short."""
        found, own = dict[str, bytes](), dict[str, bytes]()
        made = self.encode_dict(item, depth + 1, before.nested or NO_ENTRIES, found)
        if made.size <= LEAF:
            return None
        chunks.update(found)
        node = named(name, made.node if depth < DEPTH else stored(made.node, own))
        self._add_new(own, before.inner, chunks)
        value, length = item if self._frozen else NOT_KEPT, len(name) + 1 + made.size
        return EncodedEntry(name, value, "", node, True, length, mark, frozenset(own), nested=made)

    def _encode_text(
        self, name: bytes, item: str, mark: int, before: EncodedEntry, chunks: dict[str, bytes]
    ) -> EncodedEntry:
        """Return the entry of a long text; unchanged parts reuse their leaves."""
        old, known = (before.value, before.leaves) if before.leaves else ("", ())
        own, leaves = dict[str, bytes](), list[Leaf]()
        for place, at in enumerate(range(0, len(item), LEAF)):
            part = item[at : at + LEAF]
            if place < len(known) and part == old[at : at + LEAF]:
                leaves.append(known[place])
                self._reuses_chunks = True
            else:
                self._spend(LEAF)
                leaves.append(text_leaf(part, chunks))
        node = named(name, stored(joined("S", leaves, own), own))
        length = len(name) + 3 + sum([leaf.size for leaf in leaves])
        self._add_new(own, before.inner, chunks)
        return EncodedEntry(name, item, "", node, True, length, mark, frozenset(own), tuple(leaves))

    def _encode_list(
        self, name: bytes, item: list[Json], mark: int, before: EncodedEntry, chunks: dict[str, bytes]
    ) -> EncodedEntry | None:
        """Return the entry of a list of long items, None if it is short.

        Those that were there before, as many places from the beginning or from the end, are not encoded again.
        """
        known, own = before.items, dict[str, bytes]()
        pages, items = Pages("L", own), list[EncodedItem]()
        for place, one in enumerate(item):
            places = (place, place + len(known) - len(item))
            found = self._item(one, [known[at] for at in places if 0 <= at < len(known)], own)
            found.part.add_to(pages)
            items.append(found)
        size = 1 + sum(len(one.text) + 1 for one in items)
        if size <= LEAF:
            return None
        node = named(name, stored(pages.node(), own))
        self._add_new(own, before.inner, chunks)
        value, inner = item if self._frozen else NOT_KEPT, frozenset(own)
        return EncodedEntry(name, value, "", node, True, len(name) + 1 + size, mark, inner, items=items)

    def _item(self, item: Json, known: Sequence[EncodedItem], chunks: dict[str, bytes]) -> EncodedItem:
        """Return an item of a list: one of ``known`` if it is the same."""
        fixed = self._frozen or type(item) is str
        found = next((old for old in known if old.value is item), None) if fixed else None
        text = b"" if found is not None else dumps(item)
        found = found or next((old for old in known if old.text == text), None)
        if found is not None:
            self._reuses_chunks = True
            return found
        self._spend(len(text))
        own = dict[str, bytes]()
        part = list_part(item, text, own)
        self._add_new(own, frozenset[str]().union(*(old.inner for old in known)), chunks)
        return EncodedItem(item if fixed else NOT_KEPT, text, part, frozenset(own))

    def _spend(self, size: int) -> None:
        """Count bytes that have to be encoded. ``TooMuchToEncode``."""
        self._left -= size
        if self._left < 0:
            raise TooMuchToEncode

    def _add_new(self, own: dict[str, bytes], before: frozenset[str], chunks: dict[str, bytes]) -> None:
        new = {key: data for key, data in own.items() if key not in before}
        self._reuses_chunks |= len(new) < len(own)
        chunks.update(new)


def are_long_items(value: Json, depth: int, size: int) -> bool:
    """Return whether a dict or list, with about so many bytes of JSON, has long items on average, and may be looked
    into at this depth.
    """
    return DEPTH <= depth <= DEEPEST and len(value) > 0 and size >= max(INLINE, len(value) * LEAF // 4)


def in_place(entries: Iterable[EncodedEntry]) -> bytes:
    """Return the node of a dict of few entries that change at every step: as a chunk they would never be reused."""
    nodes = (entry.text if entry.is_node else b'{"v":{' + entry.text + b"}}" for entry in entries)
    return b'{"D":[' + b",".join(nodes) + b"]}"


def in_pages(entries: Iterable[EncodedEntry], inner: dict[str, bytes]) -> Pages:
    """Return the pages that a dict's small entries share; the chunks are added to ``inner``."""
    pages = Pages("D", inner)
    for entry in entries:
        (pages.add_node if entry.is_node else pages.add_entry)(entry.text, entry.mark)
    return pages


# Merkle levels of a big dict: entries in pages, groups, groups of groups; entries are replaced without a rebuild.


@value_object()
class MerkleLevel:
    """Nodes of one level in order, and where each group of them ends; the top level has no groups."""

    parts: list[Part]
    ends: list[int]


@value_object()
class MerkleLevels:
    """The levels of a dict, from its pages up; immutable."""

    pages: list[int]
    """Where each page ends among the entries; one that is a node has a page of its own."""
    levels: Sequence[MerkleLevel]

    @property
    def node(self) -> bytes:
        """Return the node of the dict."""
        return inner("D", self.levels[-1].parts)

    @property
    def inner(self) -> frozenset[str]:
        """Return the hashes of its pages and inner nodes."""
        return frozenset(hash_in(part[0]) for level in self.levels for part in level.parts)

    def replaced(self, changes: Sequence[tuple[int, bytes]], chunks: dict[str, bytes]) -> MerkleLevels:
        """Return the levels with other nodes at some places.

        Marks do not change, so neither do the groups: only those around the changes are rebuilt.
        """
        levels: list[MerkleLevel] = []
        for level in self.levels:
            parts = list(level.parts)
            for place, node in changes:
                parts[place] = (node, parts[place][1])
            ends = level.ends
            levels.append(MerkleLevel(parts, ends))
            around = {bisect_right(ends, place) for place, _ in changes} if ends else ()
            changes = [(at, stored(inner("D", parts[ends[at - 1] if at else 0 : ends[at]]), chunks)) for at in around]
        return MerkleLevels(self.pages, levels)


def build_levels(pages: Pages, chunks: dict[str, bytes]) -> MerkleLevels:
    """Return the levels over pages; inner nodes are added to ``chunks``."""
    parts, levels = pages.parts(), list[MerkleLevel]()
    while len(parts) > 2 * FANOUT:
        grouped = list(groups(parts))
        levels.append(MerkleLevel(parts, list(accumulate(map(len, grouped)))))
        parts = [(stored(inner("D", group), chunks), group[-1][1] >> 4) for group in grouped]
    return MerkleLevels(pages.ends, [*levels, MerkleLevel(parts, [])])


def hash_in(node: bytes) -> str:
    """Return the hash of a node that is only a reference, else an empty string."""
    return node[6:-2].decode() if node.startswith(b'{"c":"') else ""

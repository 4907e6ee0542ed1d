"""From a value to its chunks, again and again: what did not change since the last time is not written again.

A checkpoint's content is ``{"body": {"state": {...}, "position": {...}}, "requests": [...]}``. Down to the state's keys
every dict is taken apart, and each entry remembered as it was written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import compress
from operator import is_not
from typing import Any

from checkpoints.canonical import dumps
from checkpoints.chunks import (
    INLINE,
    LEAF,
    Leaf,
    Pages,
    digest,
    joined,
    key_text,
    named,
    sealed,
    stored,
    text_leaf,
    tree,
)
from checkpoints.tower import Tower, build_tower, hash_in

Json = Any

DEPTH = 2
"""Dicts down to this depth are taken apart entry by entry: a checkpoint's state and position lie there."""
FEW = 8
"""Entries that a dict above the state may have to be written in place."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An entry of a dict as it was written: what stands for it, and how to see that it is still the same."""

    value: Json
    """The object itself, if it is never changed in place (long texts never are); else ``UNKNOWN``."""
    print: str
    """The hash of its JSON, if that is long."""
    text: bytes
    """``"key":json``, or a node."""
    is_node: bool
    length: int
    """Bytes of ``"key":json``."""
    mark: int
    inner: frozenset[str] = frozenset()
    """The chunks of a long value, unless it was taken apart itself."""
    leaves: tuple[Leaf, ...] = ()
    """Those of a long text, in order."""


UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Parts:
    """A dict as it was taken apart: its entries, and the chunks that hold them together."""

    pieces: Mapping[str, Piece]
    inner: frozenset[str]
    size: int = 0
    """Bytes of its JSON."""
    tower: Tower | None = None
    """Where every entry is long enough to be a node of its own."""
    values: tuple[Json, ...] = ()
    """The values of its pieces then, in order."""


Known = Mapping[tuple[str, ...], Parts]
"""Every dict that was taken apart, by its path."""
NOTHING = Parts({}, frozenset())


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A value as text: the root, the chunks it needs, and the bytes of the value's plain JSON."""

    root: str
    chunks: dict[str, bytes]
    size: int
    known: Known = field(default_factory=dict)
    """What ``encode`` may be told next time, once this is stored."""
    leans: bool = False
    """Whether chunks were left out because they are stored already."""


def encode(value: Json, *, known: Known | None = None, frozen: bool = False) -> Encoded:
    """Return the value as text. ``ValueError`` if it is no JSON (NaN, foreign types).

    ``known``: from an earlier value that is stored; entries that did not change give no chunks again. ``frozen``: no
    part of the value is ever changed in place, so the very object that was encoded before need not be looked into.
    """
    if known and isinstance(value, dict):
        walk = Walk(known, frozen)
        node, size = walk.take_apart(value, (), walk.chunks)
        if size > INLINE:
            return walk.encoded(node, size)
    text = dumps(value)
    if len(text) <= INLINE:
        return Encoded(root=sealed(text), chunks={}, size=len(text))
    walk = Walk({}, frozen)
    if isinstance(value, dict):
        return walk.encoded(*walk.take_apart(value, (), walk.chunks))
    return walk.encoded(tree(value, text, walk.chunks), len(text))


class Walk:
    """One encoding of a big value."""

    def __init__(self, known: Known, frozen: bool) -> None:
        self.chunks: dict[str, bytes] = {}
        self._known = known
        self._frozen = frozen
        self._fresh: dict[tuple[str, ...], Parts] = {}
        self._leans = False

    def encoded(self, node: bytes, size: int) -> Encoded:
        """Return what came of it."""
        root = sealed(b"@" + node)
        return Encoded(root=root, chunks=self.chunks, size=size, known=self._fresh, leans=self._leans)

    def take_apart(self, value: dict[str, Json], path: tuple[str, ...], chunks: dict[str, bytes]) -> tuple[bytes, int]:
        """Return the node of a dict, and the bytes of its JSON."""
        before, pieces = self._known.get(path, NOTHING), dict[str, Piece]()
        quick = self._exchange(value, path, before, chunks) if self._frozen and before.tower is not None else None
        if quick is not None:
            return quick
        inner, size = dict[str, bytes](), 1 + max(len(value), 1)
        for key, item in value.items():
            piece = before.pieces.get(key)
            if piece is not None and self._frozen and piece.value is item:
                self._keep(piece, (*path, key) if len(path) < DEPTH else None)
            else:
                piece = self._piece(key, item, path, piece, chunks)
            pieces[key] = piece
            size += piece.length
        tower = None
        if len(path) < DEPTH and len(pieces) <= FEW:
            node = in_place(pieces.values())
        elif len(path) == DEPTH and all(piece.is_node for piece in pieces.values()):
            tower = build_tower([(piece.text, piece.mark >> 3) for piece in pieces.values()], inner)
            node = tower.node
        else:
            node = in_pages(pieces.values(), inner)
        values = tuple(piece.value for piece in pieces.values()) if tower is not None else ()
        self._fresh[path] = Parts(pieces, frozenset(inner), size, tower, values)
        self._add_new(inner, before.inner, chunks)
        return node, size

    def _exchange(
        self, value: dict[str, Json], path: tuple[str, ...], before: Parts, chunks: dict[str, bytes]
    ) -> tuple[bytes, int] | None:
        """Do so for a dict of the same long entries, of which few changed; None if it is no such dict."""
        if before.tower is None or list(value) != list(before.pieces):
            return None
        changed: dict[str, Piece] = {}
        places: list[tuple[int, bytes]] = []
        size, values = before.size, tuple(value.values())
        keys = list(value)
        for place in compress(range(len(keys)), map(is_not, values, before.values)):
            key, old = keys[place], before.pieces[keys[place]]
            changed[key] = piece = self._piece(key, values[place], path, old, chunks)
            if not piece.is_node:
                return None
            size += piece.length - old.length
            places.append((place, piece.text))
        new: dict[str, bytes] = {}
        tower, gone = before.tower.exchanged(places, new)
        chunks.update(new)
        self._leans = True
        inner = before.inner - gone | new.keys()
        self._fresh[path] = Parts({**before.pieces, **changed}, inner, size, tower, values)
        return tower.node, size

    def _keep(self, piece: Piece, path: tuple[str, ...] | None) -> None:
        self._leans = self._leans or piece.is_node
        if path is not None and path in self._known:
            for known in self._known:
                if known[: len(path)] == path:
                    self._fresh[known] = self._known[known]

    def _piece(
        self, key: str, item: Json, path: tuple[str, ...], before: Piece | None, chunks: dict[str, bytes]
    ) -> Piece:
        if type(item) is str and len(item) > LEAF:
            return self._text(key, item, before, chunks)
        name, value = key_text(key), item if self._frozen else UNKNOWN
        mark, inner = zlib.crc32(key.encode()), (*path, key)
        if inner in self._known and isinstance(item, dict) and len(inner) <= DEPTH:
            found: dict[str, bytes] = {}
            node, size = self.take_apart(item, inner, found)
            if size > LEAF:
                chunks.update(found)
                return Piece(value, "", named(name, node), True, len(name) + 1 + size, mark)
            del self._fresh[inner]
        text = dumps(item)
        length = len(name) + 1 + len(text)
        if len(text) <= LEAF:
            return Piece(value, "", name + b":" + text, False, length, mark)
        if isinstance(item, dict) and len(inner) <= DEPTH:
            node, _ = self.take_apart(item, inner, chunks)
            return Piece(value, "", named(name, node), True, length, mark)
        print_ = digest(text)
        if before is not None and before.print == print_:
            self._leans = True
            return Piece(value, print_, before.text, True, length, mark, before.inner)
        own = dict[str, bytes]()
        node = named(name, stored(tree(item, text, own), own))
        self._add_new(own, before.inner if before is not None else frozenset(), chunks)
        return Piece(value, print_, node, True, length, mark, frozenset(own))

    def _text(self, key: str, item: str, before: Piece | None, chunks: dict[str, bytes]) -> Piece:
        """Return the piece of a long text; where it reads as before, its leaves are those of before."""
        old, known = (before.value, before.leaves) if before is not None and before.leaves else ("", ())
        own, name, leaves = dict[str, bytes](), key_text(key), list[Leaf]()
        for place, at in enumerate(range(0, len(item), LEAF)):
            part = item[at : at + LEAF]
            same = place < len(known) and part == old[at : at + LEAF]
            leaves.append(known[place] if same else text_leaf(part, own))
            self._leans = self._leans or same
        node = named(name, stored(joined("S", [(leaf.node, leaf.mark) for leaf in leaves], own), own))
        length = len(name) + 3 + sum(leaf.size for leaf in leaves)
        inner = own.keys() | {hash_in(leaf.node) for leaf in leaves} - {""}
        self._add_new(own, before.inner if before is not None else frozenset(), chunks)
        mark = zlib.crc32(key.encode())
        return Piece(item, "", node, True, length, mark, frozenset(inner), tuple(leaves))

    def _add_new(self, own: dict[str, bytes], before: frozenset[str], chunks: dict[str, bytes]) -> None:
        new = {key: data for key, data in own.items() if key not in before}
        self._leans = self._leans or len(new) < len(own)
        chunks.update(new)


def in_place(pieces: Iterable[Piece]) -> bytes:
    """Return the node of a dict of few entries that change at every step: as a chunk they would serve nobody twice."""
    nodes = (piece.text if piece.is_node else b'{"v":{' + piece.text + b"}}" for piece in pieces)
    return b'{"D":[' + b",".join(nodes) + b"]}"


def in_pages(pieces: Iterable[Piece], inner: dict[str, bytes]) -> bytes:
    """Return the node of a dict whose small entries share pages; the chunks are added to ``inner``."""
    pages = Pages("D", inner)
    for piece in pieces:
        if piece.is_node:
            pages.add_node(piece.text, piece.mark)
        else:
            pages.add_entry(piece.text, piece.mark)
    return pages.node()

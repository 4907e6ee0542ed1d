"""Serialized values as chunks: long bytes are cut where their structure suggests it, and found again by hash.

A value is stored as ``[type, text]`` (its bytes in base64) or ``[type, depth, hash, ...]``: at depth 0 the chunks are
its pieces in order, at depth n their hashes, 20 bytes each, n levels down.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from checkpoints.content.chunks import digest
from checkpoints.errors import Damaged

Stored: TypeAlias = list[Any]
"""A value as a row has it."""
Typed: TypeAlias = tuple[str, bytes]
"""A value as a serializer writes it."""
Dump: TypeAlias = Callable[[Any], Typed]
"""What a serializer writes."""

SMALL = 512
"""Bytes up to which a value is in its row."""
LEAST, MOST = 1024, 8192
"""Bytes of a piece: at least (but for a header and the last) and at most."""
TOP = 24
"""Hashes in a row at most."""
DEEPEST = 12
"""Levels of hashes over the pieces of a value: of 6 hashes at least each, as ``_groups`` makes them."""
HASH = 20
"""Bytes of a hash."""
SPLIT = 16
"""Parts in which pieces are looked at that are not all the same."""
BOUNDARY = bytes(byte >= 0x80 for byte in range(256))
"""Which bytes may begin a piece: in MessagePack, all that begin a text, a list or a dict; in ASCII text there are none.

Cut there, and not at fixed places, most pieces of a value that grew or shrank are those of the value before.
"""

HEADERS = {**dict.fromkeys(range(0x80, 0xA0), 1), 0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}
"""Bytes that say in MessagePack how many entries a dict or list has, by the first of them.

They are a piece of their own: so a list has the same pieces behind its header as what a task wrote to it.
"""


@dataclass(frozen=True, slots=True)
class Pieces:
    """A serialized value as it was cut: its bytes, where each piece ends, and the pieces' hashes."""

    data: bytes = b""
    ends: Sequence[int] = ()
    keys: Sequence[str] = ()

    @property
    def held(self) -> int:
        """Return the bytes in memory."""
        return len(self.data)

    def begin(self, place: int) -> int:
        """Return where a piece begins."""
        return self.ends[place - 1] if place else 0


NONE = Pieces()


def store(
    value: Typed, chunks: MutableMapping[str, bytes], *, inline: bool = False, known: Pieces = NONE
) -> tuple[Stored, Pieces]:
    """Return the value as its row has it, and its pieces; adds what does not fit into a row to ``chunks``, by hash.

    ``known``: the pieces of an earlier value. What is the same is neither hashed nor added again.
    """
    type_, data = value
    if inline or len(data) <= SMALL:
        return [type_, b64encode(data).decode()], NONE
    ends, keys = [], []
    for key, begin, end in cut_like(data, known):
        ends.append(end)
        keys.append(key or chunk(data[begin:end], chunks))
    return root(type_, keys, chunks), Pieces(data, ends, keys)


def root(type_: str, keys: Sequence[str], chunks: MutableMapping[str, bytes]) -> Stored:
    """Return how a row names the pieces of a value; adds the hashes that do not fit into a row to ``chunks``."""
    depth = 0
    while len(keys) > TOP:
        keys = [chunk(bytes.fromhex("".join(group)), chunks) for group in _groups(keys)]
        depth += 1
    return [type_, depth, *keys]


def cut_like(data: bytes, known: Pieces) -> Iterator[tuple[str, int, int]]:
    """Yield begin and end of the pieces of long bytes in order, each with its hash if that is known.

    Pieces are looked for where they were, counted from the beginning; behind a change of length, from the end.
    """
    shift, count, tail = len(data) - len(known.data), len(known.ends), len(known.ends)
    if shift:
        moved = {*_alike(data, known, shift, bisect_left(range(count), -shift, key=known.begin), count)}
        while tail and tail - 1 in moved:
            tail -= 1
    done, end = 0, known.begin(tail) + shift if tail < count else len(data)
    for place in _alike(data, known, 0, 0, bisect_right(known.ends, end, hi=tail)):
        begin = known.begin(place)
        yield from cut(data, done, begin)
        done = known.ends[place]
        yield known.keys[place], begin, done
    yield from cut(data, done, end)
    for place in range(tail, count):
        yield known.keys[place], known.begin(place) + shift, known.ends[place] + shift


def _alike(data: bytes, known: Pieces, shift: int, first: int, last: int) -> Iterator[int]:
    """Yield the pieces among ``first`` to ``last`` (without it) that are in the bytes, so much later."""
    if first >= last:
        return
    # One comparison of many bytes takes a fraction of many comparisons.
    whole = memoryview(known.data)[known.begin(first) : known.ends[last - 1]]
    if data.startswith(whole, known.begin(first) + shift):
        yield from range(first, last)
    elif last - first > 1:
        stride = -(-(last - first) // SPLIT)
        for at in range(first, last, stride):
            yield from _alike(data, known, shift, at, min(at + stride, last))


def cut(data: bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[str, int, int]]:
    """Yield begin and end of the pieces of bytes, in order, as ``cut_like``."""
    end = len(data) if end is None else end
    if at == 0 < end and (ahead := HEADERS.get(data[0], end)) < end:
        yield "", 0, ahead
        at = ahead
    if end - at > MOST:
        marks, start = data[at:end].translate(BOUNDARY), at
        while end - at > MOST:
            found = marks.find(1, at - start + LEAST, at - start + MOST)
            following = start + found if found >= 0 else at + MOST
            yield "", at, following
            at = following
    if at < end:
        yield "", at, end


def chunk(data: bytes, chunks: MutableMapping[str, bytes]) -> str:
    """Add a piece, and return its hash."""
    key = digest(data)
    chunks[key] = data
    return key


def _groups(hashes: Sequence[str]) -> Iterator[list[str]]:
    """Yield hashes in groups; the hashes decide where one ends, so that an insertion moves few boundaries."""
    group: list[str] = []
    for key in hashes:
        group.append(key)
        if len(group) >= 4 * TOP or (len(group) >= TOP // 4 and key.endswith("0")):
            yield group
            group = []
    if group:
        yield group


def hashes_of(stored: Stored) -> tuple[int, list[str]]:
    """Return how deep the pieces of a value are, and the hashes in its row. ``Damaged`` if it is no value."""
    match stored:
        case [str(), str()]:
            return 0, []
        case [str(), int() as depth, *hashes] if 0 <= depth <= DEEPEST and all(isinstance(key, str) for key in hashes):
            return depth, hashes
    raise Damaged("a stored value cannot be read: choose an older checkpoint")


def hashes_in(node: bytes) -> list[str]:
    """Return the hashes in a chunk that has no piece. ``Damaged``."""
    if len(node) % HASH:
        raise Damaged("a stored chunk cannot be read: choose an older checkpoint")
    text = node.hex()
    return [text[at : at + 2 * HASH] for at in range(0, len(text), 2 * HASH)]


def load(stored: Stored, chunks: Mapping[str, bytes]) -> Typed:
    """Return a value as its serializer wrote it. ``Damaged`` if a chunk is missing."""
    depth, hashes = hashes_of(stored)
    if isinstance(stored[1], str):
        try:
            return stored[0], b64decode(stored[1])
        except ValueError as error:
            raise Damaged(f"a stored value cannot be read: choose an older checkpoint ({error})") from error
    for _ in range(depth):
        hashes = [key for node in hashes for key in hashes_in(_found(node, chunks))]
    return stored[0], b"".join([_found(key, chunks) for key in hashes])


def extent(stored: Stored, chunks: Mapping[str, bytes]) -> tuple[frozenset[str], int, Pieces]:
    """Return the hashes of all chunks of a value that was read, its bytes, and its pieces."""
    depth, hashes = hashes_of(stored)
    if isinstance(stored[1], str):
        return frozenset(), len(stored[1]) * 3 // 4, NONE
    found = {*hashes}
    for _ in range(depth):
        hashes = [key for node in hashes for key in hashes_in(_found(node, chunks))]
        found.update(hashes)
    pieces = [_found(key, chunks) for key in hashes]
    data = b"".join(pieces)
    return frozenset(found), len(data), Pieces(data, [*accumulate(map(len, pieces))], hashes)


def _found(key: str, chunks: Mapping[str, bytes]) -> bytes:
    if key not in chunks:
        raise Damaged("a chunk of the checkpoint is missing: choose an older one", chunk=key)
    return chunks[key]


def sizes(values: Iterable[Typed]) -> int:
    """Return how many bytes values have together."""
    return sum(len(data) for _, data in values)

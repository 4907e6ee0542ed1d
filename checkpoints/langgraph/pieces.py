"""Serialized values as chunks: long bytes are cut where their structure suggests it, and found again by hash.

A value is stored as ``[type, text]`` (its bytes in base64) or ``[type, depth, hash, ...]``: at depth 0 the chunks are
its pieces in order, at depth n their hashes, 20 bytes each, n levels down.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias

from checkpoints.content.chunks import digest
from checkpoints.errors import Damaged

Stored: TypeAlias = list[Any]
"""A value as a row has it."""
Typed: TypeAlias = tuple[str, bytes]
"""A value as a serializer writes it."""

SMALL = 512
"""Bytes up to which a value is in its row."""
LEAST, MOST = 1024, 8192
"""Bytes of a piece: at least (but for the last) and at most."""
TOP = 24
"""Hashes in a row at most."""
HASH = 20
"""Bytes of a hash."""
BOUNDARY = bytes(byte >= 0x80 for byte in range(256))
"""Which bytes may begin a piece: in MessagePack, all that begin a text, a list or a dict; in ASCII text there are none.

Cut there, and not at fixed places, most pieces of a value that grew or shrank are those of the value before.
"""


Pieces: TypeAlias = Mapping[str, bytes]
"""The pieces of a value by hash, in order (each where it comes first)."""
NONE: Pieces = {}


def store(
    value: Typed, chunks: MutableMapping[str, bytes], *, inline: bool = False, known: Pieces = NONE
) -> tuple[Stored, Pieces]:
    """Return the value as its row has it, and its pieces; adds what does not fit into a row to ``chunks``, by hash.

    ``known``: the pieces of an earlier value; what is the same is not hashed again.
    """
    type_, data = value
    if inline or len(data) <= SMALL:
        return [type_, b64encode(data).decode()], NONE
    pieces = [(key or digest(piece), piece) for key, piece in cut_like(data, known)]
    chunks.update(pieces)
    hashes, depth = [key for key, _ in pieces], 0
    while len(hashes) > TOP:
        hashes = [_chunk(bytes.fromhex("".join(group)), chunks) for group in _groups(hashes)]
        depth += 1
    return [type_, depth, *hashes], dict(pieces)


def cut_like(data: bytes, known: Pieces) -> Iterator[tuple[str, bytes]]:
    """Yield the pieces of long bytes in order, with the hashes of those that are known where they are.

    Pieces are looked for where they were, counted from the beginning; behind a change of length, from the end.
    """
    tail: list[tuple[str, bytes]] = []
    head, end = [*known.items()], len(data)
    if end != sum(map(len, known.values())):
        while head and len(head[-1][1]) <= end and data.startswith(head[-1][1], end - len(head[-1][1])):
            tail.append(head.pop())
            end -= len(tail[-1][1])
    done = at = 0
    for key, piece in head:
        if at + len(piece) <= end and data.startswith(piece, at):
            yield from (("", part) for part in cut(data[done:at]))
            yield key, piece
            done = at + len(piece)
        at += len(piece)
    yield from (("", part) for part in cut(data[done:end]))
    yield from reversed(tail)


def cut(data: bytes) -> Iterator[bytes]:
    """Yield the pieces of bytes, in order."""
    if not data:
        return
    marks, at, end = data.translate(BOUNDARY), 0, len(data)
    while end - at > MOST:
        found = marks.find(1, at + LEAST, at + MOST)
        following = found if found >= 0 else at + MOST
        yield data[at:following]
        at = following
    yield data[at:]


def _chunk(data: bytes, chunks: MutableMapping[str, bytes]) -> str:
    key = digest(data)
    chunks[key] = data
    return key


def _groups(hashes: list[str]) -> Iterator[list[str]]:
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
        case [str(), int() as depth, *hashes] if all(isinstance(key, str) for key in hashes):
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
        return stored[0], b64decode(stored[1])
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
    pieces = {key: _found(key, chunks) for key in hashes}
    return frozenset(found), sum(map(len, pieces.values())), pieces


def _found(key: str, chunks: Mapping[str, bytes]) -> bytes:
    if key not in chunks:
        raise Damaged("a chunk of the checkpoint is missing: choose an older one", chunk=key)
    return chunks[key]


def sizes(values: Iterable[Typed]) -> int:
    """Return how many bytes values have together."""
    return sum(len(data) for _, data in values)

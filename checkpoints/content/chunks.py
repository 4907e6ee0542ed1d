"""Content addressing: a small value is stored inline, a big one as a tree of chunks found by their hash.

A *root* is ``<digest> <payload>``. The payload is the JSON of the value itself, or ``@`` and a node. A node is
one of::

    {"v": value}         the value
    {"c": hash}          the node stored in that chunk
    {"k": [key, node]}   a dict of one entry         {"D": [node, ...]}   dicts, put together
    {"i": node}          a list of one item          {"L": [node, ...]}   lists, put together
                                                     {"S": [node, ...]}   strings, put together

Where a page of entries ends depends on the entries themselves, so an insertion moves few boundaries: a step that
changes 1 KB of 1 MB writes one leaf and the few nodes above it. Key order is kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.errors import Damaged

Json = Any

INLINE = 4096
"""Bytes of JSON up to which a whole value stays in the root."""
LEAF = 1024
"""Bytes after which a page of entries, a piece of text or a single value becomes a chunk of its own."""
FANOUT = 16
"""Children per inner node, on average."""


def decode(root: str, chunks: Mapping[str, bytes]) -> Json:
    """Return the value of a root. ``Damaged`` if a digest does not match or a chunk is missing."""
    payload = verify_digest(root)
    try:
        return value_of(loads(payload[1:]), chunks) if payload.startswith(b"@") else loads(payload)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"the stored content cannot be read: {error}") from error


def hashes_in(root: str) -> list[str]:
    """Return the hashes a root refers to directly. ``Damaged`` if it is not a root; its digest is not verified."""
    payload = payload_of(root)
    return hashes_in_chunk(payload[1:].encode(errors="replace")) if payload.startswith("@") else []


def hashes_in_chunk(data: bytes) -> list[str]:
    """Return the hashes a chunk refers to directly. ``Damaged`` if it is not a node."""
    try:
        return list(references(loads(data)))
    except (ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
        raise Damaged(f"a stored chunk cannot be read: {error}") from error


def verify_chunks(chunks: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return the chunks by hash after checking each. ``Damaged`` if one does not match."""
    try:
        found = {key: bytes(data) for key, data in chunks}
    except TypeError as error:
        raise Damaged("a stored chunk is no bytes any more: choose an older good checkpoint") from error
    for key, data in found.items():
        if digest(data) != key:
            raise Damaged("a stored chunk does not match its hash: choose an older good checkpoint", chunk=key)
    return found


def digest(data: bytes) -> str:
    """Return the hash by which data is found: BLAKE2b, 40 hex digits."""
    return blake2b(data, digest_size=20).hexdigest()


def with_digest(payload: bytes) -> str:
    """Return the payload as text, prefixed by its digest."""
    return f"{digest(payload)} {payload.decode()}"


def verify_digest(root: str, row: bytes = b"") -> bytes:
    """Return the payload of a root after checking its digest (of row and payload). ``Damaged``."""
    payload = payload_of(root).encode(errors="replace")
    # Roots from before rows were part of the digest are not bound; a bound root is never accepted as one of those.
    if root[:40] not in (digest(row + payload), digest(payload)):
        raise Damaged("the stored checkpoint does not match its digest: choose an older good one")
    return payload


def bind_to_row(payload: bytes, row: bytes) -> str:
    """Return a root whose digest covers row and payload, as it is stored."""
    return f"{digest(row + payload)} {payload.decode()}"


def unbind_from_row(root: str, row: bytes) -> str:
    """Return a stored root without the binding to its row. ``Damaged`` if root or row were altered."""
    return with_digest(verify_digest(root, row))


def payload_of(root: str) -> str:
    """Return the payload of a root, without verifying its digest. ``Damaged`` if it is not a root."""
    if not isinstance(root, str) or root[40:41] != " ":
        raise Damaged("the stored checkpoint does not match its digest: choose an older good one")
    return root[41:]


Part: TypeAlias = "tuple[bytes, int] | Leaf"
"""A node, and the number that says whether a group ends with it."""


class Pages:
    """Collects a container's entries into pages, and pages into a tree."""

    def __init__(self, kind: str, chunks: dict[str, bytes]) -> None:
        self._kind = kind
        self._brackets = (b"{", b"}") if kind == "D" else (b"[", b"]")
        self._chunks = chunks
        self._parts: list[Part] = []
        self._entries = 0
        self.ends: list[int] = []
        """How many entries there are up to the end of each part."""
        self._page: list[bytes] = []
        self._size = 0
        self._mark = 0

    def add_entry(self, entry: bytes, mark: int) -> None:
        """Add a small entry, as JSON inside its container (``"key":value`` or ``value``)."""
        self._page.append(entry)
        self._entries += 1
        self._size += len(entry)
        self._mark = mark
        if self._size >= LEAF or (self._size >= LEAF // 4 and self._mark % 8 == 0):
            self._end_page()

    def add_node(self, node: bytes, mark: int) -> None:
        """Add a part that is a node already."""
        self._end_page()
        self._parts.append((node, mark >> 3))
        self._entries += 1
        self.ends.append(self._entries)

    def parts(self) -> list[Part]:
        """Return everything that was added."""
        self._end_page()
        return self._parts

    def page(self, *, last: bool) -> bytes | None:
        """Return the only page, None if there are more, or it would take more entries unless it is the last."""
        if self._page and not last:
            return None
        first, *more = self.parts()
        return None if more else first[0]

    def node(self) -> bytes:
        """Return the node of everything that was added."""
        return joined(self._kind, self.parts(), self._chunks)

    def _end_page(self) -> None:
        if not self._page:
            return
        self.ends.append(self._entries)
        opening, closing = self._brackets
        page = b'{"v":' + opening + b",".join(self._page) + closing + b"}"
        self._parts.append((stored(page, self._chunks), self._mark >> 3))
        self._page, self._size = [], 0


def key_text(key: Json) -> bytes:
    """Return a key as JSON. ``ValueError`` unless it is text: another key would come back as text."""
    if not isinstance(key, str):
        raise ValueError(f"not a JSON value: key {key!r} is {type(key).__name__}, keys must be text")
    return dumps(key)


def tree(value: Json, text: bytes, chunks: dict[str, bytes]) -> bytes:
    """Return the node of a value whose JSON is ``text``; its chunks are added to ``chunks``."""
    if len(text) <= LEAF or not isinstance(value, dict | list | str):
        return stored(b'{"v":' + text + b"}", chunks)
    if isinstance(value, str):
        return text_tree(value, chunks)
    pages = Pages("D" if isinstance(value, dict) else "L", chunks)
    for key, item in value.items() if isinstance(value, dict) else ((None, item) for item in value):
        add_item(pages, key, item, chunks)
    return pages.node()


def add_item(pages: Pages, key: str | None, item: Json, chunks: dict[str, bytes]) -> None:
    """Add one entry of a container: within its page if small, else as a tree of its own.

    Where a page ends is decided by the key if there is one, so that a new value moves no boundary.
    """
    text = dumps(item)
    if key is None:
        list_part(item, text, chunks).add_to(pages)
        return
    name, mark = key_text(key), zlib.crc32(key.encode())
    if len(text) <= LEAF:
        pages.add_entry(name + b":" + text, mark)
    else:
        pages.add_node(named(name, stored(tree(item, text, chunks), chunks)), mark)


class ListPart(NamedTuple):
    """An item of a list: its JSON, or its node if that is long, and its mark."""

    text: bytes
    mark: int
    is_node: bool

    def add_to(self, pages: Pages) -> None:
        """Add it to its list's pages."""
        (pages.add_node if self.is_node else pages.add_entry)(self.text, self.mark)


def list_part(item: Json, text: bytes, chunks: dict[str, bytes]) -> ListPart:
    """Return an item of a list whose JSON is ``text``; its chunks are added to ``chunks``."""
    if len(text) > LEAF:
        node = b'{"i":' + stored(tree(item, text, chunks), chunks) + b"}"
        return ListPart(node, zlib.crc32(node), True)
    return ListPart(text, zlib.crc32(text), False)


class Leaf(NamedTuple):
    """A piece of a long text: its node and mark, and its bytes of JSON without the quotes."""

    node: bytes
    mark: int
    size: int


def text_tree(value: str, chunks: dict[str, bytes]) -> bytes:
    """Return the node of a long text: pieces of equal length."""
    leaves = [text_leaf(value[at : at + LEAF], chunks) for at in range(0, len(value), LEAF)]
    return joined("S", leaves, chunks)


def text_leaf(text: str, chunks: dict[str, bytes]) -> Leaf:
    """Return one piece of a long text."""
    piece = dumps(text)
    return Leaf(stored(b'{"v":' + piece + b"}", chunks), zlib.crc32(piece), len(piece) - 2)


def named(name: bytes, node: bytes) -> bytes:
    """Return the node of a dict of one entry, its key as JSON."""
    return b'{"k":[' + name + b"," + node + b"]}"


def stored(node: bytes, chunks: dict[str, bytes]) -> bytes:
    """Move a node into a chunk, unless the reference would be longer, and return the reference."""
    if len(node) <= 64:
        return node
    key = digest(node)
    chunks[key] = node
    return b'{"c":"' + key.encode() + b'"}'


def joined(kind: str, parts: Sequence[Part], chunks: dict[str, bytes]) -> bytes:
    """Return one node for parts in order, with inner nodes where they are many."""
    while len(parts) > 2 * FANOUT:
        parts = [(stored(inner(kind, group), chunks), group[-1][1] >> 4) for group in groups(parts)]
    return inner(kind, parts)


def groups(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield parts in groups; the parts' marks decide where one ends, so that an insertion moves few boundaries."""
    group: list[Part] = []
    for part in parts:
        group.append(part)
        if len(group) >= 2 * FANOUT or (len(group) >= FANOUT // 2 and part[1] % FANOUT == 0):
            yield group
            group = []
    if group:
        yield group


def inner(kind: str, parts: Sequence[Part]) -> bytes:
    """Return the node that joins parts."""
    return b'{"' + kind.encode() + b'":[' + b",".join([part[0] for part in parts]) + b"]}"


def references(node: Json) -> Iterator[str]:
    """Yield the hashes in a node, not those inside the chunks it names."""
    ((kind, content),) = node.items()
    if kind == "c":
        yield content
    elif kind in "DLS":
        for part in content:
            yield from references(part)
    elif kind in "ki":
        yield from references(content[1] if kind == "k" else content)
    elif kind != "v":
        raise ValueError(f"unknown node {kind!r}")


def value_of(node: Json, chunks: Mapping[str, bytes]) -> Json:
    """Return the value of a node."""
    ((kind, content),) = node.items()
    match kind:
        case "v":
            return content
        case "c":
            if content not in chunks:
                raise Damaged("a chunk of the checkpoint is missing: choose an older good one", chunk=content)
            return value_of(loads(chunks[content]), chunks)
        case "k":
            return {content[0]: value_of(content[1], chunks)}
        case "i":
            return [value_of(content, chunks)]
        case "D":
            return {key: item for part in content for key, item in value_of(part, chunks).items()}
        case "L":
            return [item for part in content for item in value_of(part, chunks)]
        case "S":
            return "".join(value_of(part, chunks) for part in content)
    raise ValueError(f"unknown node {kind!r}")

"""From a checkpoint of LangGraph to its row and chunks; what the checkpoint before has stored is not stored again."""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate
from sys import getsizeof
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.content.chunks import digest
from checkpoints.errors import Damaged, Incompatible, InvalidValue
from checkpoints.langgraph.values import Json, ThreadPlace, canonical
from checkpoints.records import frozen

LACKING = "the stored checkpoint lacks its parts: choose an older one"
FORMAT = 1
"""Of the rows' contents."""
INLINE = 4096
"""Bytes up to which a checkpoint has all values in its row but those that are chunks already."""
HEADS = 1024
"""Namespaces of which the newest checkpoint is remembered, at most."""
BYTES = 64 * 1024 * 1024
"""Bytes of values that are remembered, at most."""


@dataclass(frozen=True, slots=True)
class StoredChannel:
    """The stored value of a channel: its version, where it is, the hashes of its chunks, its bytes and its pieces."""

    version: Any
    stored: Stored
    chunks: frozenset[str]
    size: int
    pieces: Pieces | StoredTexts


@frozen
class StoredHead:
    """What is known to be stored of a checkpoint: its row, as long as its ``turn`` is the same, and its channels."""

    thread: int
    family: str
    row: int
    turn: str
    checkpoint: str
    channels: Mapping[str, StoredChannel]
    chunks: frozenset[str]

    @property
    def held(self) -> int:
        """Return the bytes of the values in memory."""
        return sum(channel.pieces.held for channel in self.channels.values())


class Heads:
    """The newest checkpoint of the namespaces that were used last; thread-safe."""

    def __init__(self, *, most: int = HEADS, most_bytes: int = BYTES) -> None:
        self._found: OrderedDict[tuple[str, str], StoredHead] = OrderedDict()
        self.coming = WeakValueDictionary[tuple[str, str], Future[bool]]()
        """Checkpoints that are being stored: until they are remembered or forgotten."""
        self._lock = Lock()
        self._size = 0
        self._most = most
        self._most_bytes = most_bytes

    def get(self, place: ThreadPlace) -> StoredHead | None:
        """Return what is known of a namespace, None if nothing is."""
        return self._found.get(place[:2])

    def put(self, place: ThreadPlace, head: StoredHead) -> None:
        """Remember a checkpoint."""
        with self._lock:
            self._drop(place[:2])
            self._found[place[:2]] = head
            self._size += head.held
            while len(self._found) > self._most or self._size > self._most_bytes:
                self._drop(next(iter(self._found)))

    def forget(self, place: ThreadPlace) -> None:
        """Forget a namespace: its next checkpoint is stored in full."""
        with self._lock:
            self._drop(place[:2])

    def _drop(self, space: tuple[str, str]) -> None:
        head = self._found.pop(space, None)
        if head is not None:
            self._size -= head.held


def new_turn() -> str:
    """Return a mark that no other version of a row has."""
    return secrets.token_hex(8)


@frozen
class EncodedCheckpoint:
    """A checkpoint as it is stored. ``chunks``: those that ``base`` has not; without a base, all of them."""

    payload: bytes
    chunks: Mapping[str, bytes]
    channels: Mapping[str, StoredChannel]
    all_chunks: frozenset[str]
    size: int
    base: StoredHead | None
    turn: str = field(default_factory=new_turn)


def encode(
    checkpoint: Mapping[str, Any],
    changed: Mapping[str, Any],
    dump: Dump,
    head: StoredHead | None,
    parent: str | None,
    *,
    apart: bool,
) -> EncodedCheckpoint:
    """Return the checkpoint as it is stored.

    ``changed``: channels with a new value since ``parent``; of those that ``head`` has stored, the others are not
    looked at. ``apart``: texts may be packed apart (see ``store_texts``).
    """
    values, versions = checkpoint.get("channel_values") or {}, checkpoint.get("channel_versions") or {}
    stored = head.channels if head is not None else {}
    known = stored if head is not None and head.checkpoint == parent else {}
    made, channels = dict[str, bytes](), dict[str, StoredChannel]()
    typed: dict[str, Typed] = {}
    for name, value in values.items():
        before, version = known.get(name), versions.get(name)
        if before is not None and name not in changed and before.version == version:
            channels[name] = before
        elif apart and (texts := _as_texts(value, version, dump, made, stored.get(name))) is not None:
            channels[name] = texts
        else:
            typed[name] = typed_of(dump, name, value)
    rest = dump({key: value for key, value in checkpoint.items() if key != "channel_values"})
    size = sizes(typed.values()) + sum(channel.size for channel in channels.values()) + len(rest[1])
    inline = size - sum(channel.size for channel in channels.values() if channel.chunks) <= INLINE
    for name, value in typed.items():
        channels[name] = _as_a_whole(value, versions.get(name), made, stored.get(name), inline=inline)
    content = {
        "f": FORMAT,
        "h": store(rest, made, inline=inline)[0],
        "c": {name: channels[name].stored for name in values},
    }
    chunks = frozenset(made).union(*(channel.chunks for channel in channels.values()))
    base = head if head is not None and head.chunks & chunks else None
    new = {key: made[key] for key in made if base is None or key not in base.chunks}
    return EncodedCheckpoint(
        payload=payload_of(content), chunks=new, channels=channels, all_chunks=chunks, size=size, base=base
    )


def typed_of(dump: Dump, channel: str, value: object) -> Typed:
    """Return the value of a channel as the serializer writes it. ``InvalidValue`` names the channel."""
    try:
        return dump(value)
    except InvalidValue as error:
        raise InvalidValue(f"channel {channel!r}: {error}", field=channel) from error


def _as_texts(
    value: object, version: Any, dump: Dump, made: dict[str, bytes], before: StoredChannel | None
) -> StoredChannel | None:
    """Return a channel of long texts, None if it is none; what is new of it is added to ``made``."""
    known = before.pieces if before is not None and isinstance(before.pieces, StoredTexts) else NO_TEXTS
    own = dict[str, bytes]()
    found = store_texts(value, dump, own, known)
    if found is None:
        return None
    made |= own
    return StoredChannel(version, found[0], frozenset(own).union(found[1].keys), found[1].size, found[1])


def _as_a_whole(
    value: Typed, version: Any, made: dict[str, bytes], before: StoredChannel | None, *, inline: bool
) -> StoredChannel:
    """Return any other channel; what is new of it is added to ``made``."""
    known = before.pieces if before is not None and isinstance(before.pieces, Pieces) else NONE
    own = dict[str, bytes]()
    where, pieces = store(value, own, inline=inline, known=known)
    made |= own
    return StoredChannel(version, where, frozenset(own).union(pieces.keys), len(value[1]), pieces)


def payload_of(content: Json) -> bytes:
    """Return a row's content as text. ``InvalidValue`` for names that no JSON has."""
    try:
        return dumps(content)
    except ValueError as error:
        raise InvalidValue(f"channel: {error}", field="channel") from error


def content_of(payload: bytes) -> dict[str, Any]:
    """Return the content of a row. ``Damaged``; ``Incompatible`` if a newer version wrote it."""
    try:
        content = loads(payload)
    except ValueError as error:
        raise Damaged(LACKING) from error
    match content:
        case {"f": int() as written} if written > FORMAT:
            raise Incompatible(f"a checkpoint has format {written}, this code reads up to {FORMAT}: upgrade wfdash")
        case {"f": int(), "h": list(), "c": dict()} | {"f": int(), "w": list()}:
            return content  # type: ignore[no-any-return]
    raise Damaged(LACKING)


def stored_in(content: Mapping[str, Any]) -> list[Stored]:
    """Return the values in a row's content."""
    return [content["h"], *content["c"].values()] if "c" in content else [content["w"]]


@frozen
class EncodedWrite:
    """What a task wrote to one channel, as it is stored."""

    idx: int
    channel: str
    payload: bytes


@frozen
class EncodedWrites:
    """What a task wrote, as it is stored. ``chunks``: see ``EncodedCheckpoint``."""

    writes: Sequence[EncodedWrite]
    chunks: Mapping[str, bytes]
    base: StoredHead | None
    turn: str = field(default_factory=new_turn)


def encode_writes(writes: Sequence[tuple[int, str, Typed]], head: StoredHead | None) -> EncodedWrites:
    """Return the writes as they are stored."""
    made: dict[str, bytes] = {}
    inline = sizes(typed for _, _, typed in writes) <= INLINE
    encoded = [
        EncodedWrite(
            idx=idx, channel=channel, payload=payload_of({"f": FORMAT, "w": store(typed, made, inline=inline)[0]})
        )
        for idx, channel, typed in writes
    ]
    base = head if head is not None and head.chunks & made.keys() else None
    new = {key: made[key] for key in made if base is None or key not in base.chunks}
    return EncodedWrites(writes=encoded, chunks=new, base=base)


def checkpoint_row(family: str, ns: str, checkpoint: str, parent: str | None, metadata: Json) -> bytes:
    """Return what a checkpoint's content is bound to: where it belongs, and its metadata."""
    return canonical([family, ns, checkpoint, parent, metadata])


def write_row(family: str, ns: str, checkpoint: str, task: str, idx: int, path: str, channel: str) -> bytes:
    """Return what a write's content is bound to."""
    return dumps([family, ns, checkpoint, task, idx, path, channel])


# Dicts and lists of long texts as chunks: a text that the value before had is neither packed nor hashed again.

Text: TypeAlias = str | bytes

TYPE = "msgpack"
TEXTS = {str, bytes}
"""Types whose objects never change and always have the same MessagePack; no types derived from them."""
MANY = 16384
"""Entries that are looked at, at most."""
WORTH = 32 * 1024
"""Characters from which it pays to look at entries one by one."""


@dataclass(frozen=True, slots=True)
class TextGroup:
    """Entries that are stored together: their hashes, their bytes there, and their bytes in memory."""

    entries: Sequence[Any]
    keys: Sequence[str]
    size: int
    held: int


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """The stored groups of a value by the key that they begin with (of a list: the text), and all hashes in order."""

    groups: Mapping[Text, TextGroup] = field(default_factory=dict)
    keys: Sequence[str] = ()
    size: int = 0
    held: int = 0


NO_TEXTS = StoredTexts()


def store_texts(
    value: object, dump: Dump, chunks: MutableMapping[str, bytes], known: StoredTexts
) -> tuple[Stored, StoredTexts] | None:
    """Return a dict or list of long texts as its row has it, and its groups; None for any other value.

    What is new is added to ``chunks``, by hash. ``known``: the groups of an earlier value. ``dump`` is that of a
    serializer which always writes the same bytes of equal texts.
    """
    if type(value) not in (dict, list):
        return None
    found: Any = value.copy()  # type: ignore[attr-defined]  # A node may be changing it.
    if not are_long_texts(found):
        return None
    form, firsts = type(found), [*found]
    entries: Sequence[Any] = [*found.items()] if form is dict else firsts
    start = header(form, len(entries))
    keys, size, held, groups, at = [chunk(start, chunks)], len(start), 0, dict[Text, TextGroup](), 0
    while at < len(entries):
        group = known.groups.get(firsts[at])
        if group is None or entries[at : at + len(group.entries)] != group.entries:
            group = _new_group(form, entries[at : group_end(form, entries, at)], dump, chunks)
            if group is None:
                return None
        groups[firsts[at]] = group
        keys += group.keys
        size += group.size
        held += group.held
        at += len(group.entries)
    return root(TYPE, keys, chunks), StoredTexts(groups, keys, size, held)


def are_long_texts(value: Any) -> bool:
    """Return whether a dict or list has nothing but texts, long ones on average."""
    texts = value.values() if type(value) is dict else value
    if not 0 < len(value) <= MANY or type(next(iter(texts))) not in TEXTS:
        return False
    if not {*map(type, texts)} <= TEXTS or (texts is not value and {*map(type, value)} != {str}):
        return False
    return sum(map(len, texts)) >= max(WORTH, len(value) * LEAST)


def group_end(form: type, entries: Sequence[Any], at: int) -> int:
    """Return where the group that begins at a place ends: behind the first long text, so that none moves another."""
    end = at + 1
    while end < len(entries) and len(entries[end - 1][1] if form is dict else entries[end - 1]) < LEAST:
        end += 1
    return end


def _new_group(form: type, entries: Sequence[Any], dump: Dump, chunks: MutableMapping[str, bytes]) -> TextGroup | None:
    """Return a group, its pieces added to ``chunks``; None if the serializer does not write MessagePack."""
    type_, data = dump(form(entries))
    start = header(form, len(entries))
    if type_ != TYPE or not data.startswith(start):
        return None
    keys = [chunk(data[begin:end], chunks) for _, begin, end in cut(data, len(start))]
    held = sum(map(getsizeof, dict(entries).values() if form is dict else entries))
    return TextGroup(entries, keys, len(data) - len(start), held)


def header(form: type, count: int) -> bytes:
    """Return what MessagePack begins a dict or list with."""
    short, middle, long = (0x80, b"\xde", b"\xdf") if form is dict else (0x90, b"\xdc", b"\xdd")
    if count < 16:
        return bytes([short + count])
    return middle + count.to_bytes(2, "big") if count < 2**16 else long + count.to_bytes(4, "big")


# Serialized values as chunks: long bytes are cut where their structure suggests it, and found again by hash.

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
    # In MessagePack bytes from 0x80 on begin a text, a list or a dict, and ASCII has none. Cut there, and not at fixed
    # places, most pieces of a value that grew or shrank are those of the value before.
    while end - at > MOST:
        following = at + MOST
        try:
            data[at + LEAST : following].decode("ascii")
        except UnicodeDecodeError as first:
            following = at + LEAST + first.start
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
    *_, pieces = extent(stored, chunks)
    if not isinstance(stored[1], str):
        return stored[0], pieces.data
    try:
        return stored[0], b64decode(stored[1])
    except ValueError as error:
        raise Damaged(f"a stored value cannot be read: choose an older checkpoint ({error})") from error


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

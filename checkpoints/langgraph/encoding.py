"""From a checkpoint of LangGraph to its row and chunks; what the checkpoint before has stored is not stored again."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.errors import Damaged, Incompatible, InvalidValue
from checkpoints.langgraph.pieces import NONE, Dump, Pieces, Stored, Typed, sizes, store
from checkpoints.langgraph.texts import NO_TEXTS, StoredTexts, store_texts
from checkpoints.langgraph.values import Json, ThreadPlace, canonical

LACKING = "the stored checkpoint lacks its parts: choose an older one"
FORMAT = 1
"""Of the rows' contents."""
INLINE = 4096
"""Bytes of values up to which a checkpoint has them all in its row."""
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class EncodedCheckpoint:
    """A checkpoint as it is stored. ``chunks``: those that ``base`` has not; without a base, all of them."""

    payload: bytes
    chunks: Mapping[str, bytes]
    channels: Mapping[str, StoredChannel]
    all_chunks: frozenset[str]
    size: int
    base: StoredHead | None
    turn: str = field(default_factory=lambda: new_turn())


def new_turn() -> str:
    """Return a mark that no other version of a row has."""
    return secrets.token_hex(8)


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
    inline = size <= INLINE
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


@dataclass(frozen=True, kw_only=True)
class EncodedWrite:
    """What a task wrote to one channel, as it is stored."""

    idx: int
    channel: str
    payload: bytes
    turn: str


@dataclass(frozen=True, kw_only=True)
class EncodedWrites:
    """What a task wrote, as it is stored. ``chunks``: see ``EncodedCheckpoint``."""

    writes: Sequence[EncodedWrite]
    chunks: Mapping[str, bytes]
    base: StoredHead | None


def encode_writes(writes: Sequence[tuple[int, str, Typed]], head: StoredHead | None) -> EncodedWrites:
    """Return the writes as they are stored."""
    made: dict[str, bytes] = {}
    inline = sizes(typed for _, _, typed in writes) <= INLINE
    encoded = [
        EncodedWrite(
            idx=idx,
            channel=channel,
            payload=payload_of({"f": FORMAT, "w": store(typed, made, inline=inline)[0]}),
            turn=new_turn(),
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
    return canonical([family, ns, checkpoint, task, idx, path, channel])

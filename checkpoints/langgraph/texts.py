"""Dicts and lists of long texts as chunks: a text that the value before had is neither packed nor hashed again.

MessagePack writes how many entries there are, then one entry after the other. So entries that are packed apart and put
together are byte for byte what the serializer writes of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any, TypeAlias

from checkpoints.langgraph.pieces import LEAST, Dump, Stored, chunk, cut, root

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

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("langgraph")

from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from checkpoints.langgraph.encoding import MANY, MOST, NO_TEXTS, encode_writes, header, load, store, store_texts
from tests.checkpoints.langgraph.samples import checkpoint, put, thread

SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)
LONG = {f"{n:03d}": f"{n:03d} of " * 300 for n in range(40)}
"""Documents of 2 KB."""
KEYS = st.text(max_size=20)
LETTERS = st.sampled_from(["a", "ä", "東", "\U0001f600", "\ud800", "\0"])
TEXTS = st.builds(lambda letter, count, end: letter * count + end, LETTERS, st.integers(0, 3000), KEYS)
ANY_TEXTS = TEXTS | st.binary(max_size=2000)
MORE = ("bytes", b"x" * MOST)
"""What is too much for a row."""


def is_stored(value: Any, known: Any, chunks: dict[str, bytes]) -> Any:
    """Store a value of texts, look that it is what the serializer writes of it, and return what is known of it."""
    found = store_texts(value, SERDE.dumps_typed, chunks, known)
    assert found is not None
    stored, texts = found
    typed = SERDE.dumps_typed(value)
    assert load(stored, chunks) == typed
    assert texts.size == len(typed[1])
    return texts


@settings(max_examples=40)
@given(st.dictionaries(KEYS, ANY_TEXTS, max_size=20), st.dictionaries(KEYS, ANY_TEXTS, max_size=3), st.data())
def test_a_dict_of_texts_has_the_bytes_that_the_serializer_writes(
    first: dict[str, Any], more: dict[str, Any], data: st.DataObject
) -> None:
    chunks, value = dict[str, bytes](), {**first, "long": "x" * 50_000}
    known = is_stored(value, NO_TEXTS, chunks)
    for key in data.draw(st.lists(st.sampled_from(sorted(first)), max_size=3)) if first else []:
        value.pop(key, None)
    known = is_stored({**value, **more}, known, chunks)
    is_stored(dict(reversed([*value.items()])), known, chunks)


@settings(max_examples=40)
@given(st.lists(ANY_TEXTS, max_size=20), ANY_TEXTS, st.data())
def test_a_list_of_texts_has_the_bytes_that_the_serializer_writes(
    value: list[Any], another: Any, data: st.DataObject
) -> None:
    chunks = dict[str, bytes]()
    value = [*value, b"x" * 50_000, *value]
    known = is_stored(value, NO_TEXTS, chunks)
    value.insert(data.draw(st.integers(0, len(value))), another)
    known = is_stored(value, known, chunks)
    is_stored([one for one in value if one != another], known, chunks)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 2**16 - 1, 2**16, 2**17])
def test_a_header_is_the_one_that_the_serializer_writes(count: int) -> None:
    assert SERDE.dumps_typed([None] * count)[1].startswith(header(list, count))
    assert SERDE.dumps_typed(dict.fromkeys(range(count)))[1].startswith(header(dict, count))


class OwnText(str):
    """A text of another type."""


@pytest.mark.parametrize(
    "value",
    [
        {**LONG, "number": 1},
        {**LONG, "own": OwnText("text")},
        {**LONG, 1: "text"},
        {**LONG, OwnText("key"): "text"},
        Counter(LONG),
        [*LONG.values(), ["text"]],
        ["short"] * 9000,
        ["x" * 2000] * (MANY + 1),
        dict[str, str](),
        "x" * 50_000,
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_more_than_long_texts_is_left_to_the_serializer(value: Any) -> None:
    assert store_texts(value, SERDE.dumps_typed, {}, NO_TEXTS) is None


def test_what_is_no_message_pack_is_left_to_the_serializer() -> None:
    assert store_texts(LONG, lambda value: ("json", b"{}"), {}, NO_TEXTS) is None
    assert store_texts(LONG, lambda value: ("msgpack", b"{}"), {}, NO_TEXTS) is None


async def test_another_serializer_is_given_values_as_a_whole(saver: Any) -> None:
    class Own(JsonPlusSerializer):
        seen: list[Any] = []

        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            self.seen.append(obj)
            return super().dumps_typed(obj)

    saver.serde = serde = Own()
    last = await put(saver, thread(), checkpoint(docs=LONG))
    assert LONG in serde.seen
    assert (await saver.aget_tuple(last)).checkpoint["channel_values"]["docs"] == LONG


async def test_a_text_that_did_not_change_is_not_packed_again(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = list[Any]()
    original = JsonPlusSerializer.dumps_typed

    def dumps_typed(self: JsonPlusSerializer, value: Any) -> Any:
        packed.append(value)
        return original(self, value)

    monkeypatch.setattr(JsonPlusSerializer, "dumps_typed", dumps_typed)
    last = await put(saver, thread(), checkpoint(docs=LONG))
    packed.clear()
    last = await put(saver, last, checkpoint(docs={**LONG, "007": "new" * 500}))
    assert [value for value in packed if "id" not in value] == [{"007": "new" * 500}]
    # What was read has the same texts, but as other objects.
    found = (await saver.aget_tuple(last)).checkpoint["channel_values"]["docs"]
    packed.clear()
    last = await put(saver, last, checkpoint(docs={**found, "new": "newer" * 500}))
    assert [value for value in packed if "id" not in value] == [{"new": "newer" * 500}]
    assert (await saver.aget_tuple(last)).checkpoint["channel_values"]["docs"] == {**found, "new": "newer" * 500}


async def test_a_list_that_a_node_changes_in_place_is_stored_as_it_is_then(saver: Any) -> None:
    docs, last = [*LONG.values()], thread()
    for change in (lambda: None, lambda: docs.append("last" * 300), lambda: docs.pop(3), docs.reverse, docs.clear):
        change()
        last = await put(saver, last, checkpoint(docs=docs))
        assert (await saver.aget_tuple(last)).checkpoint["channel_values"]["docs"] == docs


@pytest.mark.parametrize(
    ("before", "write"), [([*LONG.values()], ["new" * 1000]), (LONG, {"new": "new" * 1000})], ids=["a list", "a dict"]
)
def test_a_text_that_a_task_wrote_is_stored_once(before: Any, write: Any) -> None:
    written, chunks = encode_writes([(0, "docs", SERDE.dumps_typed(write)), (1, "more", MORE)], None), {}
    after = [*before, *write] if isinstance(before, list) else {**before, **write}
    assert store_texts(after, SERDE.dumps_typed, chunks, NO_TEXTS) is not None
    (new,) = (key for key, data in written.chunks.items() if b"newnew" in data)
    assert new in chunks


def test_a_message_that_a_task_wrote_is_stored_once() -> None:
    messages = [{"role": "user", "content": text} for text in LONG.values()]
    write = [{"role": "agent", "content": "new" * 1000}]
    written, chunks = encode_writes([(0, "messages", SERDE.dumps_typed(write)), (1, "more", MORE)], None), {}
    _, known = store(SERDE.dumps_typed(messages), {})
    store(SERDE.dumps_typed([*messages, *write]), chunks, known=known)
    (new,) = (key for key, data in written.chunks.items() if b"newnew" in data)
    assert new in chunks
    assert sum(map(len, chunks.values())) < 6000

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.content import chunks, encoder
from checkpoints.content.canonical_json import dumps
from checkpoints.content.chunks import INLINE, decode, hashes_in, hashes_in_chunk, verify_chunks
from checkpoints.content.encoder import Encoded, encode
from checkpoints.errors import Damaged

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXT, inner, max_size=8),
    max_leaves=40,
)

PLACES = [
    pytest.param(lambda texts: texts, id="texts by key"),
    pytest.param(lambda texts: {"docs": texts, "i": 1}, id="texts in a dict"),
    pytest.param(lambda texts: {"docs": [*texts.values()], "i": 1}, id="texts in a list"),
]
"""Where a state has its texts."""


def stretched(value: Any, times: int) -> Any:
    """Return the value made large, so that every kind of node occurs."""
    texts = {f"text {i}": f"{i} " * 900 for i in range(3)}
    return {"many": [value] * times, "named": {f"k{i}": value for i in range(times)}, **texts, "one": value}


def read(encoded: Encoded) -> Any:
    """Decode what was encoded."""
    return decode(encoded.root, verify_chunks(encoded.chunks.items()))


@given(JSON)
@settings(deadline=None)
def test_any_json_survives(value: Any) -> None:
    assert read(encode(value)) == value


@given(JSON, st.integers(1, 100))
@settings(deadline=None)
def test_large_json_survives(value: Any, times: int) -> None:
    large = stretched(value, times)
    back = read(encode(large))
    assert back == large
    assert list(back) == list(large)


@given(TEXT.filter(bool), st.integers(30, 300))
@settings(deadline=None)
def test_long_texts_survive(unit: str, times: int) -> None:
    text = unit * times
    assert read(encode([text, {"a": text}])) == [text, {"a": text}]


@given(
    st.lists(st.tuples(st.sampled_from(["state", "position", "extra"]), TEXT, JSON, st.integers(1, 60))), st.booleans()
)
@settings(deadline=None)
def test_what_is_left_out_is_stored_already(changes: list[tuple[str, str, Any, int]], frozen: bool) -> None:
    value: dict[str, Any] = {"body": {"state": {"first": stretched(1, 40)}, "position": {}}, "requests": []}
    store, known = dict[str, bytes](), None
    for part, key, item, times in changes:
        entries = {**value["body"].get(part, {}), key: stretched(item, times) if times > 30 else item}
        if times % 7 == 0:
            entries.pop(key)
        value = {**value, "body": {**value["body"], part: entries}}
        encoded = encode(value, known=known, frozen=frozen)
        store.update(encoded.chunks)
        known = encoded.known
        assert encoded.root == encode(value).root
        assert encoded.size == len(dumps(value))
        assert decode(encoded.root, store) == value


def reachable(root: str, store: dict[str, bytes]) -> dict[str, bytes]:
    """Return the chunks a root needs: what is left of a store whose other checkpoints were pruned."""
    found, todo = dict[str, bytes](), hashes_in(root)
    while todo:
        key = todo.pop()
        found[key] = store[key]
        todo.extend(hashes_in_chunk(store[key]))
    return found


@pytest.mark.parametrize(
    "place",
    [
        *PLACES,
        pytest.param(lambda texts: {"talk": [{"role": "user", "text": one} for one in texts.values()]}, id="messages"),
        pytest.param(lambda texts: {"live": {"1": {"node": "s", "journal": [*texts.values()]}}}, id="a step's calls"),
        pytest.param(lambda texts: {"by": {key: {"text": one} for key, one in texts.items()}, "i": 1}, id="dicts"),
    ],
)
@given(st.lists(st.lists(st.tuples(st.integers(0, 69), st.integers(0, 3)), max_size=4), max_size=12), st.booleans())
@settings(deadline=None, max_examples=30)
def test_what_is_left_out_is_part_of_the_last_one(
    place: Callable[[Any], Any], changes: list[list[tuple[int, int]]], frozen: bool
) -> None:
    texts = {length: f"{length} text " * (length * 400) for length in range(4)}
    state: dict[str, Any] = {f"key {i}": f"{i} " * 900 for i in range(70)}
    encoded = encode({"body": {"state": place(state), "position": {}}}, frozen=frozen)
    store = dict(encoded.chunks)
    for step in changes:
        state = {**state, **{f"key {i}": texts[length] + str(i) for i, length in step}}
        for i, length in step:
            if (i + length) % 9 == 0:
                state.pop(f"key {i}", None)
        value = {"body": {"state": place(state), "position": {"changes": len(step)}}}
        encoded = encode(value, known=encoded.known, frozen=frozen)
        store = reachable(encoded.root, {**store, **encoded.chunks})
        assert encoded.root == encode(value).root
        assert encoded.size == len(dumps(value))
        assert decode(encoded.root, store) == value


def test_only_what_was_written_is_given_again() -> None:
    value = {"state": stretched(1, 2000)}
    first = encode(value, frozen=True)
    assert not first.reuses_chunks
    for again in (encode(value, known=first.known, frozen=True), encode(value, known=first.known)):
        assert again.reuses_chunks
        assert again.root == first.root
        assert len(again.chunks) < len(first.chunks) / 10


def test_an_object_that_may_change_is_looked_into() -> None:
    value: dict[str, Any] = {"body": {"state": {"a": ["x" * 2000], "b": "y" * 5000}}}
    first = encode(value, frozen=True)
    value["body"]["state"]["a"][0] = "z" * 2000
    second = encode(value, known=first.known)
    assert decode(second.root, {**first.chunks, **second.chunks}) == value


def test_documents_that_may_change_are_looked_into() -> None:
    docs = {f"doc {i}": f"{i} " * 900 for i in range(40)}
    value: dict[str, Any] = {"body": {"state": {"docs": docs, "a": 1}}}
    first = encode(value, frozen=True)
    docs["doc 7"] = "z" * 2000
    second = encode(value, known=first.known)
    assert decode(second.root, {**first.chunks, **second.chunks}) == value
    del docs["doc 3"]
    third = encode(value, known=second.known)
    assert decode(third.root, {**first.chunks, **second.chunks, **third.chunks}) == value


@pytest.mark.parametrize("size", [2000, 10_000])
def test_a_key_that_is_no_text_is_refused_in_big_values(size: int) -> None:
    with pytest.raises(ValueError, match="key 1"):
        encode({"body": {"state": {"a": {1: "x" * size}, "b": "y" * 5000}}})


@pytest.mark.parametrize("frozen", [False, True])
def test_messages_that_were_there_are_not_cut_again(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    talk, cut = [{"role": "user", "text": f"{i} lorem ipsum " * 350} for i in range(200)], list[Any]()

    def list_part_noting(item: Any, *rest: Any) -> Any:
        cut.append(item)
        return chunks.list_part(item, *rest)

    monkeypatch.setattr(encoder, "list_part", list_part_noting)
    encoded = encode({"body": {"state": {"talk": talk}}}, frozen=frozen)
    new = {"role": "agent", "text": "new " * 800}
    for following in ([*talk, new], [new, *talk], [*talk[:90], new, *talk[90:]], talk[30:], [*talk, talk[0] | new]):
        cut.clear()
        found = encode({"body": {"state": {"talk": following}}}, known=encoded.known, frozen=frozen)
        assert len(cut) <= 1
        assert decode(found.root, {**encoded.chunks, **found.chunks})["body"]["state"]["talk"] == following
        assert found.root == encode({"body": {"state": {"talk": following}}}).root


def test_a_list_that_became_short_is_stored_as_a_short_one() -> None:
    encoded = encode({"body": {"state": {"talk": ["x" * 3000] * 9, "rest": "y" * 9000}}})
    for talk in (["short"], [], ["x" * 3000], ["short"] * 900, None):
        value = {"body": {"state": {"talk": talk, "rest": "y" * 9000}}}
        found = encode(value, known=encoded.known)
        assert found.root == encode(value).root
        assert decode(found.root, {**encoded.chunks, **found.chunks}) == value


def test_small_values_need_no_chunk() -> None:
    encoded = encode({"a": "x" * (INLINE - 20)})
    assert encoded.chunks == {}
    assert hashes_in(encoded.root) == []


def test_equal_parts_are_stored_once() -> None:
    part = [{"i": i, "text": "same"} for i in range(500)]
    assert len(encode([part, part, part]).chunks) <= len(encode([part]).chunks) + 3


def megabyte() -> dict[str, Any]:
    """Return a checkpoint's content of about 1 MB: 200 keys of 5 KB."""
    return {"body": {"state": {f"doc {i}": f"{i} lorem ipsum " * 350 for i in range(200)}, "position": {"at": 1}}}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("frozen", [False, True])
def test_changing_a_kilobyte_of_a_megabyte_writes_and_reads_little(
    frozen: bool, place: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at, pick, state = list[int](), random.Random(1), megabyte()["body"]["state"]

    def dumps_noting(value: Any) -> bytes:
        text = dumps(value)
        looked_at.append(len(text))
        return text

    monkeypatch.setattr(encoder, "dumps", dumps_noting)
    monkeypatch.setattr(chunks, "dumps", dumps_noting)
    encoded = encode({"body": {"state": place(state), "position": {"at": 1}}}, frozen=frozen)
    for _ in range(20):
        looked_at.clear()
        key, at = f"doc {pick.randrange(200)}", pick.randrange(4000)
        state = {**state, key: state[key][:at] + "".join(pick.choices("abcdef", k=1000)) + state[key][at + 1000 :]}
        encoded = encode({"body": {"state": place(state), "position": {"at": 1}}}, known=encoded.known, frozen=frozen)
        assert sum(map(len, encoded.chunks.values())) + len(encoded.root) <= 8192
        assert sum(looked_at) <= 16_384
    assert encoded.size > 900_000


def test_inserting_into_a_long_list_writes_little() -> None:
    value = [{"i": i, "text": f"entry {i}"} for i in range(20_000)]
    seen = set(encode(value).chunks)
    value.insert(700, {"i": -1, "text": "new"})
    encoded = encode(value)
    assert sum(len(data) for key, data in encoded.chunks.items() if key not in seen) <= 8192


def test_every_chunk_is_reachable_from_the_root() -> None:
    encoded = encode(megabyte())
    found, todo = set(), hashes_in(encoded.root)
    while todo:
        key = todo.pop()
        found.add(key)
        todo.extend(hashes_in_chunk(encoded.chunks[key]))
    assert found == set(encoded.chunks)


@pytest.mark.parametrize("value", [{"a": [1, "é", None]}, ["x" * 3000, "y" * 3000]], ids=["inline", "tree"])
def test_every_changed_character_of_a_root_is_noticed(value: Any) -> None:
    encoded = encode(value)
    for at, char in enumerate(encoded.root):
        changed = encoded.root[:at] + ("0" if char != "0" else "1") + encoded.root[at + 1 :]
        with pytest.raises(Damaged):
            decode(changed, encoded.chunks)


def test_a_changed_or_missing_chunk_is_noticed() -> None:
    encoded = encode(megabyte())
    key = next(iter(encoded.chunks))
    with pytest.raises(Damaged):
        verify_chunks([(key, encoded.chunks[key] + b" ")])
    with pytest.raises(Damaged):
        decode(encoded.root, {k: d for k, d in encoded.chunks.items() if k != key})


@pytest.mark.parametrize("bad", [float("nan"), float("-inf"), {"a": [float("nan")]}, object(), "\ud800"])
def test_what_json_cannot_say_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode({"state": bad, "padding": "x" * 10_000})


def test_words_that_look_like_numbers_are_fine() -> None:
    assert read(encode({"NaN": "Infinity", "text": "NaN"})) == {"NaN": "Infinity", "text": "NaN"}


def test_a_chunk_that_is_no_bytes_any_more_is_damaged() -> None:
    with pytest.raises(Damaged, match="no bytes"):
        verify_chunks([("0" * 40, "text")])  # type: ignore[list-item]

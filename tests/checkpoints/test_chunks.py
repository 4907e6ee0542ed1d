from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.chunks import INLINE, Encoded, Encoder, decode, encode, hashes_in, hashes_in_chunk, verified
from checkpoints.errors import Damaged

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXT, inner, max_size=8),
    max_leaves=40,
)


def stretched(value: Any, times: int) -> Any:
    """Return the value made large, so that every kind of node occurs."""
    texts = {f"text {i}": f"{i} " * 900 for i in range(3)}
    return {"many": [value] * times, "named": {f"k{i}": value for i in range(times)}, **texts, "one": value}


def read(encoded: Encoded) -> Any:
    """Decode what was encoded."""
    return decode(encoded.root, verified(encoded.chunks.items()))


@given(JSON)
@settings(deadline=None)
def test_any_json_survives(value: Any) -> None:
    assert read(encode(value)) == value


@given(JSON, st.integers(1, 100))
@settings(deadline=None, max_examples=50)
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


@given(JSON, JSON)
@settings(deadline=None, max_examples=25)
def test_an_encoder_that_leaves_out_what_is_stored_loses_nothing(first: Any, second: Any) -> None:
    encoder, store = Encoder(), dict[str, bytes]()
    for value in (first, second, first, {"a": second, "late": first}):
        encoded = encoder.encode({"state": stretched(value, 40), "position": value})
        store.update(encoded.chunks)
        encoder.keep()
        assert decode(encoded.root, store) == {"state": stretched(value, 40), "position": value}


def test_what_was_not_stored_is_given_again() -> None:
    encoder, value = Encoder(), {"state": stretched(1, 2000)}
    first = encoder.encode(value)
    assert encoder.encode(value).chunks == first.chunks
    encoder.keep()
    assert len(encoder.encode(value).chunks) < len(first.chunks) / 10


def test_small_values_need_no_chunk() -> None:
    encoded = encode({"a": "x" * (INLINE - 20)})
    assert encoded.chunks == {}
    assert hashes_in(encoded.root) == []


def test_equal_parts_are_stored_once() -> None:
    part = [{"i": i, "text": "same"} for i in range(500)]
    assert len(encode([part, part, part]).chunks) <= len(encode([part]).chunks) + 3


def megabyte() -> dict[str, Any]:
    """Return a state of about 1 MB."""
    return {"state": {f"doc {i}": f"{i} lorem ipsum " * 60 for i in range(1100)}, "position": {"at": 1}}


def test_changing_a_kilobyte_of_a_megabyte_writes_little() -> None:
    value, written, pick = megabyte(), [], random.Random(1)
    seen = set(encode(value).chunks)
    for _ in range(20):
        value["state"][f"doc {pick.randrange(1100)}"] = "".join(pick.choices("abcdef", k=900))
        encoded = encode(value)
        new = {key: data for key, data in encoded.chunks.items() if key not in seen}
        seen.update(new)
        written.append(sum(map(len, new.values())) + len(encoded.root))
    assert encoded.size > 900_000
    assert sum(written) / len(written) <= 8192


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
        verified([(key, encoded.chunks[key] + b" ")])
    with pytest.raises(Damaged):
        decode(encoded.root, {k: d for k, d in encoded.chunks.items() if k != key})


@pytest.mark.parametrize("bad", [float("nan"), float("-inf"), {"a": [float("nan")]}, object(), "\ud800"])
def test_what_json_cannot_say_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode({"state": bad, "padding": "x" * 10_000})


def test_words_that_look_like_numbers_are_fine() -> None:
    assert read(encode({"NaN": "Infinity", "text": "NaN"})) == {"NaN": "Infinity", "text": "NaN"}

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.errors import Damaged
from checkpoints.langgraph.encoding import LEAST, MOST, NONE, SMALL, cut, encode_writes, extent, load, store
from checkpoints.langgraph.values import ThreadPlace, canonical, metadata_of
from checkpoints.langgraph.writes import PATIENCE, Company, Outline, PreparedWrites, keep_latest, needed_by


def text(seed: int, size: int) -> bytes:
    """Return bytes with structure, as MessagePack has it."""
    chance = random.Random(seed)
    return b"".join(
        b"\xd9" + bytes(chance.choices(b"abcdefgh", k=chance.randrange(50, 900))) for _ in range(size // 475)
    )


@given(st.lists(st.binary(min_size=0, max_size=3000), max_size=12), st.data())
def test_every_value_comes_back(parts: list[bytes], data: st.DataObject) -> None:
    value, chunks = b"".join(parts * 9), dict[str, bytes]()
    stored, pieces = store(("bytes", value), chunks)
    assert load(stored, chunks) == ("bytes", value)
    assert extent(stored, chunks)[1:] == (
        len(value) if len(value) > SMALL else pytest.approx(len(value), abs=2),
        pieces,
    )
    at = data.draw(st.integers(0, len(value)))
    other = value[:at] + data.draw(st.binary(max_size=50)) + value[data.draw(st.integers(at, len(value))) :]
    following, _ = store(("bytes", other), chunks, known=pieces)
    assert load(following, chunks) == ("bytes", other)
    assert load(stored, chunks) == ("bytes", value)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:200_000] + b"x" * 1000 + data[201_000:],
        lambda data: data[:200_000] + b"x" * 1001 + data[200_000:],
        lambda data: b"\xdc\x00\x09" + data[3:] + text(9, 1000),
        lambda data: data[5000:],
    ],
    ids=["replaced", "inserted", "appended, and the count before it", "cut off in front"],
)
def test_a_small_change_makes_few_new_chunks(change: object) -> None:
    before, after = dict[str, bytes](), dict[str, bytes]()
    data = text(1, 400_000)
    _, pieces = store(("bytes", data), before)
    store(("bytes", change(data)), after, known=pieces)  # type: ignore[operator]
    assert sum(len(chunk) for key, chunk in after.items() if key not in before) < 25_000
    fresh: dict[str, bytes] = {}
    store(("bytes", change(data)), fresh)  # type: ignore[operator]
    assert sum(len(chunk) for key, chunk in fresh.items() if key not in before) < 40_000


def test_pieces_are_neither_tiny_nor_huge() -> None:
    for data in (text(2, 300_000), b"\xff" * 100_000, b"a" * 100_000):
        sizes = [end - begin for _, begin, end in cut(data)]
        assert sum(sizes) == len(data)
        assert max(sizes) <= MOST
        assert min(sizes[:-1]) >= LEAST


@pytest.mark.parametrize("stored", [[], ["msgpack"], ["msgpack", 1, 2], {"a": 1}, ["bytes", 0, "0" * 40]])
def test_what_is_no_value_is_damaged(stored: object) -> None:
    with pytest.raises(Damaged):
        load(stored, {})  # type: ignore[arg-type]


def test_a_document_has_one_text_however_a_database_writes_it() -> None:
    assert canonical({"b": 1.0, "a": [1e22, -0.0, True]}) == canonical({"a": [10**22, 0, True], "b": 1})
    assert canonical({"a": True}) != canonical({"a": 1})
    assert metadata_of({"a": (1, "x\0")}) == {"a": [1, "x"]}


def outline(row: int, parent: int | None, *, deltas: str = "", values: str = "") -> Outline:
    """Return a checkpoint whose id is its row's number."""
    before = None if parent is None else f"{parent:02d}"
    return Outline(
        row=row,
        ns="",
        checkpoint=f"{row:02d}",
        parent=before,
        caller=None,
        deltas=frozenset(deltas),
        values=frozenset(values),
    )


def test_what_the_value_of_the_newest_is_made_of_stays_with_it() -> None:
    outlines = [
        outline(1, None, values="ab"),
        outline(2, 1, deltas="b", values="a"),
        outline(3, 2, deltas="a", values="b"),
        outline(4, 2, deltas="ab"),
        outline(5, 3, deltas="ab"),
    ]
    removal = keep_latest(outlines)
    assert sorted(removal.rows) == [1, 4]
    assert [one.row for one in removal.orphans] == [2]


def test_a_chain_in_a_circle_ends() -> None:
    circle = [outline(1, 2, deltas="a"), outline(2, 1, deltas="a")]
    assert len(needed_by(circle[1], circle)) == 2


def test_writes_that_wait_are_taken_by_one_and_left_by_none() -> None:
    company, place = Company(), ThreadPlace("thread", "", "checkpoint")
    one, other, late = (
        company.join(PreparedWrites(place=place, task=task, path="", encoded=encode_writes([], None), hint=None))
        for task in ("one", "other", "late")
    )
    company.leave(late)
    assert company.lead(one) == [other]
    again = company.join(other.given)
    # Its time is over, but another sees to it: those that came later are not its own.
    assert company.lead(other) is None
    assert company.take(place) == [again]
    assert company.take(place) == []


def test_writes_wait_no_longer_where_nothing_comes_along_and_wait_again_once_something_does() -> None:
    company, place = Company(), ThreadPlace("thread", "", "checkpoint")
    given = PreparedWrites(place=place, task="one", path="", encoded=encode_writes([], None), hint=None)
    for _ in range(PATIENCE):
        assert company.expected
        assert company.lead(company.join(given)) == []
    assert not company.expected
    with company.without(given):
        pass
    assert company.take(place) == []
    assert not company.expected, "the caller stored one thing after the other"
    with company.without(given):
        assert company.take(place._replace(thread="another")) == []
        assert not company.expected
        assert company.take(place) == []
    assert company.expected


@given(st.lists(st.binary(min_size=900, max_size=9000), min_size=1, max_size=30), st.data())
def test_what_is_known_of_a_value_is_never_taken_for_something_else(parts: list[bytes], data: st.DataObject) -> None:
    known, chunks = NONE, dict[str, bytes]()
    for _ in range(3):
        at = data.draw(st.integers(0, len(parts)))
        more = data.draw(st.lists(st.binary(max_size=5000), max_size=3))
        parts = parts[:at] + more + parts[data.draw(st.integers(at, len(parts))) :]
        stored, known = store(("bytes", b"".join(parts)), chunks, known=known)
        assert load(stored, chunks) == ("bytes", b"".join(parts))
        assert known == NONE or b"".join(chunks[key] for key in known.keys) == b"".join(parts)

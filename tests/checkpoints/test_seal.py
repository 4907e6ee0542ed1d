from __future__ import annotations

import pytest

from checkpoints.errors import Damaged, InvalidConfig
from checkpoints.seal import MARK, Locked, Sealer, sealed_in, sealer_of

OLD, NEW = "an-old-secret-long-enough-to-be-one", "a-new-secret-long-enough-to-be-one"
ROW = ("request", "r1", "card")


@pytest.fixture(params=["", "plain", OLD, f"{NEW},{OLD}", f"{OLD},plain", f"plain,{OLD}"])
def sealer(request: pytest.FixtureRequest) -> Sealer:
    """Give each kind of ring in turn."""
    return sealer_of(request.param)


@pytest.mark.parametrize("text", ["", "ä\x00b", MARK, f"{MARK}x:y", "x" * 10_000])
def test_what_is_sealed_opens_to_itself(sealer: Sealer, text: str) -> None:
    assert sealer.open(sealer.seal(text, *ROW), *ROW) == text


@pytest.mark.parametrize("text", ["null", "1", '"a"', '{"b":1,"a":2}', f'"{MARK}x:y"', f'{{"sealed":"{MARK}x:y"}}'])
def test_a_sealed_document_is_a_document(sealer: Sealer, text: str) -> None:
    for clear in (frozenset[str](), frozenset({"a"})):
        assert sealer.open_document(sealer.seal_document(text, *ROW, clear=clear), *ROW) == text


def test_a_sealed_document_shows_what_is_clear_and_nothing_else() -> None:
    stored = sealer_of(OLD).seal_document('{"activation":3,"output":"canary"}', *ROW, clear={"activation"})
    assert '"activation":3' in stored
    assert "canary" not in stored


def test_a_chunk_is_the_same_bytes_each_time_and_found_in_its_family_alone() -> None:
    sealer = sealer_of(OLD)
    first, again = (sealer.seal_chunk(b'{"v":1}', "f", "k") for _ in range(2))
    assert first == again
    assert sealer.open_chunk(first, "f", sealer.name("f", "k")) == b'{"v":1}'
    assert sealer.name("f", "k") != sealer.name("g", "k")
    assert first != sealer.seal_chunk(b'{"v":1}', "g", "k")
    for elsewhere in (("g", "k"), ("f", "j")):
        with pytest.raises(Damaged, match="another row"):
            sealer.open_chunk(first, elsewhere[0], sealer.name(*elsewhere))


def test_no_two_sealings_of_a_text_look_alike() -> None:
    sealer = sealer_of(OLD)
    assert sealer.seal("a", *ROW) != sealer.seal("a", *ROW)


def test_what_was_written_for_another_row_is_damage() -> None:
    sealer = sealer_of(OLD)
    stored = sealer.seal("a", *ROW)
    for row in (("request", "r2", "card"), ("answer", "r1", "card"), ("request", "r1", "suggestion")):
        with pytest.raises(Damaged, match="another row"):
            sealer.open(stored, *row)


def test_a_changed_character_is_damage() -> None:
    sealer = sealer_of(OLD)
    stored = sealer.seal("a text", *ROW)
    at = len(stored) - 6
    for changed in (stored[:at] + ("A" if stored[at] != "A" else "B") + stored[at + 1 :], stored[:-8], stored + "!"):
        with pytest.raises(Damaged):
            sealer.open(changed, *ROW)


def test_every_key_of_the_ring_opens_and_the_first_seals() -> None:
    old, both = sealer_of(OLD), sealer_of(f"{NEW}, {OLD}")
    stored = old.seal("a", *ROW)
    assert both.open(stored, *ROW) == "a"
    assert (old.is_current(stored), both.is_current(stored)) == (True, False)
    assert set(both.names("f", ["k"])) == {old.name("f", "k"), both.name("f", "k")}


def test_a_missing_key_is_named() -> None:
    stored = sealer_of(OLD).seal("a", *ROW)
    with pytest.raises(Locked, match="WFDASH_ENCRYPTION_KEYS"):
        sealer_of(NEW).open(stored, *ROW)
    with pytest.raises(Locked, match="add that key"):
        sealer_of("").open_document(f'"{stored}"', *ROW)


def test_plain_content_opens_only_where_plain_is_listed() -> None:
    assert sealer_of(f"{OLD},plain").open("a", *ROW) == "a"
    for read in (
        lambda s: s.open("a", *ROW),
        lambda s: s.open_document("1", *ROW),
        lambda s: s.open_chunk(b"{", "f", "k"),
    ):
        with pytest.raises(Locked, match="add plain"):
            read(sealer_of(OLD))


def test_a_short_key_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="32 characters"):
        sealer_of("short")


def test_only_a_stored_document_looks_sealed() -> None:
    assert sealed_in({"sealed": "no"}) is None
    assert sealed_in([MARK]) is None
    assert sealed_in({"sealed": f"{MARK}k:x"}) == f"{MARK}k:x"

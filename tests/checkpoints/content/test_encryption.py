from __future__ import annotations

import pytest

from checkpoints.content.encryption import MARK, Encryptor, Locked, encrypted_text_in, encryptor_of
from checkpoints.errors import Damaged, InvalidConfig

OLD, NEW = "an-old-secret-long-enough-to-be-one", "a-new-secret-long-enough-to-be-one"
ROW = ("request", "r1", "card")


@pytest.fixture(
    params=["", "plain", OLD, f"{NEW},{OLD}", f"{OLD},plain", f"plain,{OLD}", [NEW, OLD], [], (OLD, "plain")]
)
def encryptor(request: pytest.FixtureRequest) -> Encryptor:
    """Give each kind of ring in turn."""
    return encryptor_of(request.param)


@pytest.mark.parametrize("text", ["", "ä\x00b", MARK, f"{MARK}x:y", "x" * 10_000])
def test_what_is_sealed_opens_to_itself(encryptor: Encryptor, text: str) -> None:
    assert encryptor.decrypt(encryptor.encrypt(text, *ROW), *ROW) == text


@pytest.mark.parametrize("text", ["null", "1", '"a"', '{"b":1,"a":2}', f'"{MARK}x:y"', f'{{"sealed":"{MARK}x:y"}}'])
def test_a_sealed_document_is_a_document(encryptor: Encryptor, text: str) -> None:
    for clear in (frozenset[str](), frozenset({"a"})):
        assert encryptor.decrypt_document(encryptor.encrypt_document(text, *ROW, clear=clear), *ROW) == text


def test_a_sealed_document_shows_what_is_clear_and_nothing_else() -> None:
    stored = encryptor_of(OLD).encrypt_document('{"activation":3,"output":"canary"}', *ROW, clear={"activation"})
    assert '"activation":3' in stored
    assert "canary" not in stored


def test_a_chunk_is_the_same_bytes_each_time_and_found_in_its_family_alone() -> None:
    encryptor = encryptor_of(OLD)
    first, again = (encryptor.encrypt_chunk(b'{"v":1}', "f", "k") for _ in range(2))
    assert first == again
    assert encryptor.decrypt_chunk(first, "f", encryptor.name("f", "k")) == b'{"v":1}'
    assert encryptor.name("f", "k") != encryptor.name("g", "k")
    assert first != encryptor.encrypt_chunk(b'{"v":1}', "g", "k")
    for elsewhere in (("g", "k"), ("f", "j")):
        with pytest.raises(Damaged, match="another row"):
            encryptor.decrypt_chunk(first, elsewhere[0], encryptor.name(*elsewhere))


def test_no_two_sealings_of_a_text_look_alike() -> None:
    encryptor = encryptor_of(OLD)
    assert encryptor.encrypt("a", *ROW) != encryptor.encrypt("a", *ROW)


def test_what_was_written_for_another_row_is_damage() -> None:
    encryptor = encryptor_of(OLD)
    stored = encryptor.encrypt("a", *ROW)
    for row in (("request", "r2", "card"), ("answer", "r1", "card"), ("request", "r1", "suggestion")):
        with pytest.raises(Damaged, match="another row"):
            encryptor.decrypt(stored, *row)


def test_a_changed_character_is_damage() -> None:
    encryptor = encryptor_of(OLD)
    stored = encryptor.encrypt("a text", *ROW)
    at = len(stored) - 6
    for changed in (stored[:at] + ("A" if stored[at] != "A" else "B") + stored[at + 1 :], stored[:-8], stored + "!"):
        with pytest.raises(Damaged):
            encryptor.decrypt(changed, *ROW)


def test_every_key_of_the_ring_opens_and_the_first_seals() -> None:
    old, both = encryptor_of(OLD), encryptor_of(f"{NEW}, {OLD}")
    stored = old.encrypt("a", *ROW)
    assert both.decrypt(stored, *ROW) == "a"
    assert (old.is_current(stored), both.is_current(stored)) == (True, False)
    assert set(both.names("f", ["k"])) == {old.name("f", "k"), both.name("f", "k")}


def test_a_missing_key_is_named() -> None:
    stored = encryptor_of(OLD).encrypt("a", *ROW)
    with pytest.raises(Locked, match="WFDASH_ENCRYPTION_KEYS"):
        encryptor_of(NEW).decrypt(stored, *ROW)
    with pytest.raises(Locked, match="add that key"):
        encryptor_of("").decrypt_document(f'"{stored}"', *ROW)


def test_plain_content_opens_only_where_plain_is_listed() -> None:
    assert encryptor_of(f"{OLD},plain").decrypt("a", *ROW) == "a"
    for read in (
        lambda s: s.decrypt("a", *ROW),
        lambda s: s.decrypt_document("1", *ROW),
        lambda s: s.decrypt_chunk(b"{", "f", "k"),
    ):
        with pytest.raises(Locked, match="add plain"):
            read(encryptor_of(OLD))


def test_a_short_key_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="32 characters"):
        encryptor_of("short")


def test_only_a_stored_document_looks_sealed() -> None:
    assert encrypted_text_in({"sealed": "no"}) is None
    assert encrypted_text_in([MARK]) is None
    assert encrypted_text_in({"sealed": f"{MARK}k:x"}) == f"{MARK}k:x"


def test_a_list_of_keys_is_what_the_same_keys_with_commas_are() -> None:
    assert encryptor_of([f" {NEW}", OLD, ""]) is encryptor_of(f"{NEW}, {OLD}")
    for wrong in ([f"{NEW},{OLD}"], [NEW, None], None, {NEW: OLD}):
        with pytest.raises(InvalidConfig, match="WFDASH_ENCRYPTION_KEYS: give a list of texts"):
            encryptor_of(wrong)  # type: ignore[arg-type]

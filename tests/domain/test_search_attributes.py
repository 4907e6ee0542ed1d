"""What an input is found by: values by path, words, never what is secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfdash.domain import search_attributes
from wfdash.domain.search_attributes import (
    SearchAttribute,
    facts_of,
    failure_of,
    moment_in,
    number_of,
    tag_of,
    title_words,
    tokens,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=30,
)


def values(message, schema=None):
    return {(fact.name, fact.text) for fact in facts_of(message, schema) if fact.name != search_attributes.WORD}


def words(message, schema=None):
    return {fact.text for fact in facts_of(message, schema) if fact.name == search_attributes.WORD}


def test_values_are_found_by_their_path_and_items_by_that_of_their_list():
    message = {"Amount": 120, "to": {"name": "Ana Novak", "vip": True}, "lines": [{"sku": "A1"}, {"sku": "B2"}]}
    assert values(message) == {
        ("input.amount", "120"),
        ("input.to.name", "ana novak"),
        ("input.to.vip", "true"),
        ("input.lines.sku", "a1"),
        ("input.lines.sku", "b2"),
    }
    assert words(message) == {"120", "ana", "novak", "a1", "b2"}
    assert values("just a text") == {("input", "just a text")}


def test_numbers_are_numbers_in_a_text_too_and_days_are_seconds():
    assert number_of("900.00") == number_of(900) == 900.0
    assert [number_of(odd) for odd in ("007", "1e3", "", True, None, "9" * 16, 10**16)] == [None] * 7
    (due,) = [fact for fact in facts_of({"due": "2026-01-31"}) if fact.name == "input.due"]
    assert due.number == moment_in("2026-01-31").timestamp()
    assert moment_in("2026-13-01") is None


def test_what_the_schema_calls_secret_is_never_a_fact():
    schema = {
        "$defs": {"card": {"properties": {"pin": {"writeOnly": True}, "bank": {}}}, "me": {"$ref": "#/$defs/me"}},
        "properties": {
            "password": {"type": "string", "format": "password"},
            "cards": {"items": {"anyOf": [{"$ref": "#/$defs/card"}, {"type": "null"}]}},
            "more": {"additionalProperties": {"format": "password"}},
            "odd": {"$ref": "#/$defs/me"},
        },
    }
    message = {"password": "hush", "cards": [{"pin": "hush", "bank": "b1"}], "more": {"x": "hush"}, "odd": {"y": 1}}
    assert values(message, schema) == {("input.cards.bank", "b1"), ("input.odd.y", "1")}
    assert "hush" not in words(message, schema)


def test_the_paths_one_can_look_for_are_those_of_single_values():
    schema = {
        "$defs": {"line": {"properties": {"sku": {"type": "string"}, "more": {"$ref": "#/$defs/line"}}}},
        "properties": {
            "pin": {"type": "string", "format": "password"},
            "amount": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        },
    }
    assert search_attributes.paths_of(schema)[:3] == (("amount",), ("lines", "sku"), ("lines", "more", "sku"))
    assert ("pin",) not in search_attributes.paths_of(schema)
    assert search_attributes.paths_of({"type": "string"}) == ()
    assert search_attributes.paths_of(
        {"properties": {"a": {"type": ["integer", "null"]}, "b": {"type": ["null"]}}}
    ) == (("a",),)


def test_a_run_is_found_by_the_end_of_its_id_and_the_parts_of_its_names():
    assert title_words("Refund order", "refund_order", run="019a-1234ABCD") == ("refund", "order", "1234abcd")


def test_a_failure_is_found_by_its_class_and_its_words():
    told = failure_of({"type": "shop.TooLate", "message": "Parcel 7 is late"})
    assert {fact.text for fact in told if fact.name == search_attributes.ERROR} == {"shop.toolate", "toolate"}
    assert {"parcel", "late", "7"} <= {fact.text for fact in told if fact.name == search_attributes.WORD}
    assert all(
        fact.name == search_attributes.ERROR for fact in failure_of({"type": "TooLate", "message": "x"}, content=False)
    )
    assert failure_of(None) == ()


@pytest.mark.parametrize(
    ("text", "tag"), [("EU", "eu"), ("a b", None), ("", None), ("x" * 41, None), ("v1.2/x", "v1.2/x")]
)
def test_a_tag_is_a_short_word(text, tag):
    assert tag_of(text) == tag


@given(JSON)
def test_any_input_makes_few_and_storable_facts(message):
    found = facts_of(message)
    assert len(found) <= search_attributes.MOST_INPUTS + search_attributes.MOST_WORDS
    assert len(set(found)) == len(found)
    for fact in found:
        assert 0 < len(fact.text) <= search_attributes.LONGEST_TEXT
        assert len(fact.name) <= search_attributes.LONGEST_TEXT
        assert "\0" not in fact.text
        fact.text.encode()


@given(st.text(max_size=60))
def test_looking_for_a_word_of_a_text_finds_that_word(text):
    for token in tokens(text):
        assert tokens(token) == (token,)


def test_a_fact_is_a_value():
    assert SearchAttribute(name="tag", text="eu") == SearchAttribute(name="tag", text="eu")

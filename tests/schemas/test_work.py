"""What a schema and a value may cost. Processor time is measured, so that a busy machine fails nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pytest
from django.http import QueryDict
from pydantic import BaseModel, Field, create_model

from checkpoints.limits import MOST_NODES
from wfdash.questions.card import AnswerType, Card
from wfdash.questions.cards import Approval, Form, make_request, prepare
from wfdash.questions.evidence import JsonValue, Text
from wfdash.questions.policy import Policy
from wfdash.values.errors import InvalidCall
from wfdash.values.schemas.validate import flaw_of, flaws_of, problems_of
from wfdash.values.schemas.work import TooMuchWork, bounded_work, has_more_values, refuse_heavy, states_of
from wfdash.web.pages.ui.forms.form import FormView, walk

MOST_SECONDS = 0.5
NOW = datetime(2026, 11, 24, tzinfo=UTC)
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def bomb(levels: int, word: str, *, below: bool = False) -> dict[str, Any]:
    """Return a schema that leads to its last part on 2^levels paths: for one value, or for one ever further inside."""

    def to(level: int) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/a{level}"}
        return {"properties": {"x": reference}, "required": ["x"]} if below else reference

    parts = {f"a{level}": {word: [to(level + 1)] * 2} for level in range(levels)}
    return {"$defs": {**parts, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def branching(fields: int) -> dict[str, Any]:
    """Return a schema of an object whose required fields are objects like it."""
    names = [f"c{number}" for number in range(fields)]
    node = {"type": "object", "properties": {name: {"$ref": "#/$defs/n"} for name in names}, "required": names}
    return {"$defs": {"n": node}, "$ref": "#/$defs/n"}


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"x": value}
    return value


FIXED_SECONDS = 0.012
"""What ``fixed_work`` takes at most where nothing slows the machine down: 7 to 10 ms."""


def fixed_work() -> None:
    kept = {(number, str(number)): [number, {"n": number}] for number in range(20_000)}
    assert sum(len(key[1]) for key in kept) == 88_890


def cpu_of(call: Callable[[], Any]) -> float:
    """Return the processor seconds of this thread for a call; of up to five while they take long, beside other work.

    Of a machine that has a slow hour, by what fixed work takes right after the call, they are as those of its usual.
    """
    for _ in range(5):
        took = spent(call)
        if took < MOST_SECONDS or (took := took / max(1.0, spent(fixed_work) / FIXED_SECONDS)) < MOST_SECONDS:
            break
    return took


def spent(call: Callable[[], Any]) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began


WIDE = {f"k{number}": number for number in range(49_000)}
ROWS = [{"a": number} for number in range(24_000)]
LONG = "x" * 8_000_000
BITS = "".join(random.Random(1).choice("01") for _ in range(100_000))
NAMES = [f"r{number}" for number in range(9_000)]
TABLE: dict[str, tuple[Any, Any]] = {
    "all of all": (bomb(40, "allOf"), "a"),
    "any of any": (bomb(40, "anyOf"), 1),
    "one of one": (bomb(40, "oneOf"), 1),
    "any of fields": (bomb(31, "anyOf", below=True), nested(30)),
    "itself": ({"$ref": "#"}, 1),
    "itself by name": ({"$anchor": "a", "allOf": [{"$ref": "#a"}] * 2}, 1),
    "itself dynamically": ({"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}] * 2}, 1),
    "errors with a large object": ({"allOf": [{"type": "string"}] * 4_000}, WIDE),
    "errors with a long text": ({"allOf": [{"type": "integer"}, {"minLength": 9**9}] * 2_000}, LONG),
    "nothing fits": ({"anyOf": [False] * 4_000}, {"t": LONG}),
    "contains nothing": ({"allOf": [{"contains": False}] * 4_000}, [LONG]),
    "many options": ({"items": {"enum": list(range(100_000))}}, ["x"] * 40_000),
    "large options": ({"items": {"enum": [{"a": number} for number in range(5_000)]}}, ROWS),
    "a large constant": ({"allOf": [{"const": WIDE}] * 10}, {**WIDE}),
    "unique objects": ({"uniqueItems": True}, ROWS),
    "unique many times": ({"allOf": [{"uniqueItems": True}] * 1_000}, ROWS),
    "unevaluated items": ({"prefixItems": [{}], "unevaluatedItems": False}, [*range(49_000)]),
    "unevaluated fields": ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": True}}] * 400}, WIDE),
    "names by patterns": ({"patternProperties": {f"^k{number}": {} for number in range(1_000)}}, WIDE),
    "names many times": ({"allOf": [{"propertyNames": {"pattern": "^k"}}] * 1_000}, WIDE),
    "additional many times": ({"allOf": [{"additionalProperties": True}] * 4_000}, WIDE),
    "dependent schemas": ({"dependentSchemas": dict.fromkeys(NAMES, False)}, {**dict.fromkeys(NAMES), "t": LONG}),
    "dependent names": ({"items": {"dependentRequired": {"a": NAMES}}}, ROWS),
    "required names": ({"items": {"required": NAMES}}, ROWS),
    "known names": ({"items": {"properties": {key: {} for key in NAMES}}}, ROWS),
    "all items": ({"allOf": [{"items": True}] * 4_000}, [1] * 49_000),
    "a pattern of many states": ({"pattern": "[01]*1[01]{3000}2"}, BITS),
    "a pattern of words": ({"pattern": r"(\w+\s*){100}x$"}, "a" * 1_000_000),
    "many patterns": ({"allOf": [{"pattern": f"[ab]{{{number}}}c"} for number in range(2_000, 2_400)]}, "ab" * 500),
    "JSON in a text": ({"allOf": [{"format": "json-string"}] * 100}, "[" + "[]," * 1_000_000 + "[]]"),
    "a pattern in a text": ({"format": "regex"}, "[a-z]" * 1_000_000),
    "addresses": ({"allOf": [{"format": "email"}] * 100}, "a@" + "b." * 1_000_000),
    "files": ({"allOf": [{"contentEncoding": "base64", "contentMediaType": "application/json"}] * 99}, "aaaa" * 10**6),
    "another schema inside": ({"allOf": [{"$schema": DRAFT, "pattern": "(a+)+$"}]}, "a" * 40 + "b"),
    "an older one inside": (
        {"items": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "(a+)+$"}},
        ["a" * 40 + "b"],
    ),
    "references by name": (
        {
            "$defs": {name: {"$anchor": name} for name in NAMES[:2_000]},
            "allOf": [{"$ref": f"#{name}"} for name in NAMES[:2_000]],
        },
        1,
    ),
    "a long reference": ({"allOf": [{"$ref": "#/" + "a/" * 400_000}] * 100}, 1),
    "another server": ({"$ref": "http://127.0.0.1:9/x"}, 1),
    "a wrong value in each place": ({"items": {"type": "string"}}, [*range(49_000)]),
    "a missing value in each place": ({"required": [f"r{number}" for number in range(19_000)]}, {}),
    "no numbers": ({}, [float("inf")] * 49_000),
    "a million values": ({}, [[]] * 1_000_000),
}


@pytest.mark.parametrize("attack", TABLE)
def test_no_schema_costs_more_than_half_a_second_where_it_is_asked_or_checked(attack: str) -> None:
    schema, value = TABLE[attack]

    def ask() -> None:
        with suppress(InvalidCall):
            AnswerType(schema)
            make_request("k", "s", prepare(Form(subject="x"), schema), Policy(), due=None, now=NOW)

    for call in (ask, lambda: problems_of(schema, value)):
        assert cpu_of(call) < MOST_SECONDS


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [14, 40])
def test_a_schema_of_which_too_much_applies_to_one_value_is_refused_where_it_is_asked(word: str, levels: int) -> None:
    with pytest.raises(InvalidCall, match="answer= is a JSON Schema that takes too long to check"):
        prepare(Approval(subject="x", edit=bomb(levels, word)), None)
    with pytest.raises(InvalidCall, match="too long to check"):
        prepare(Form(subject="x"), {"properties": {"deep": bomb(levels, word)}, **bomb(levels, word)})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {}]}}}, "without an end"),
        ({"$anchor": "a", "not": {"$ref": "#a"}}, "without an end"),
        ({"enum": list(range(20_000))}, "more than 20,000 values"),
        ({"pattern": "(a{1000}){60}"}, "repeat less"),
        (
            {"$defs": {f"a{n}": {"$ref": f"#/$defs/a{n - 1}"} for n in range(1, 99)}, "$ref": "#/$defs/a98"},
            "more than 64",
        ),
    ],
)
def test_the_refusal_says_what_is_too_much(schema: Any, words: str) -> None:
    with pytest.raises(TooMuchWork, match=words):
        refuse_heavy(schema)


class Money(BaseModel):
    amount: Annotated[float, Field(ge=0)]
    currency: Literal["EUR", "USD", "GBP"] = "EUR"


class Person(BaseModel):
    """Recursive through fields and items."""

    name: Annotated[str, Field(pattern=r"^[\w .'-]{1,80}$")]
    address: Annotated[str, Field(pattern=r"^[a-z]{1,63}(\.[a-z]{1,63}){1,10}$")] | None = None
    manager: Person | None = None
    reports: list[Person] = []


class Card1(BaseModel):
    kind: Literal["a"] = "a"
    owner: Person
    paid: list[Money] = []


class Card2(BaseModel):
    kind: Literal["b"] = "b"
    inner: dict[str, Card1 | Card2] = {}
    either: Card1 | Money | str | int | None = None


class Large(BaseModel):
    cards: list[Annotated[Card1 | Card2, Field(discriminator="kind")]]
    people: dict[str, Person]


def wide_model(fields: int, models: int) -> Any:
    """Return a model of many models with many fields each, as exports of whole databases are."""

    def one(number: int) -> Any:
        parts: Any = {f"field_{place}": (str | None, None) for place in range(fields)}
        return create_model(f"Part{number}", **parts, money=(Money, ...), person=(Person | None, None))

    return create_model("Wide", **{f"part_{number}": (one(number) | None, None) for number in range(models)})


@pytest.mark.parametrize("kind", [Large, wide_model(20, 15)])
def test_large_models_are_asked_and_answered_as_types_and_as_their_schemas(kind: Any) -> None:
    schema = kind.model_json_schema()
    refuse_heavy(schema)
    assert flaw_of(schema) == ""
    for answer in (kind, schema):
        asking = prepare(Form(subject="x"), answer)
        assert make_request("k", "s", asking, Policy(), due=None, now=NOW).answer_schema == asking.schema


def test_a_large_answer_to_a_large_model_is_valid() -> None:
    def person(depth: int) -> dict[str, Any]:
        inner = [person(depth - 1)] * 2 if depth else []
        return {"name": "Ana B.", "address": "mail.example.org", "manager": None, "reports": inner}

    cards = [{"kind": "a", "owner": person(0), "paid": [{"amount": 1.5}] * 3}] * 500
    value = {"cards": cards, "people": {"ana": person(6)}}
    Large.model_validate(value)
    assert problems_of(Large.model_json_schema(), value) == []


def test_all_checks_of_a_block_together_have_the_steps_of_one() -> None:
    schema, value = TABLE["any of fields"]
    with bounded_work():
        assert "too long" in problems_of(schema, value)[0]["msg"]
        assert "too long" in problems_of({"type": "string"}, "x")[0]["msg"]
    assert problems_of({"type": "string"}, "x") == []


def test_a_message_of_very_many_values_is_refused_and_long_text_is_not() -> None:
    assert flaws_of([0] * (MOST_NODES - 1)) == []
    assert "50,000 values" in flaws_of([0] * MOST_NODES)[0]["msg"]
    assert flaws_of({"text": LONG}) == []


def test_a_card_holds_at_most_100_pieces_and_50000_values() -> None:
    with pytest.raises(ValueError, match="at most 100"):
        Card(subject="x", evidence=[Text(value="x")] * 101)
    with pytest.raises(InvalidCall, match="more than 50,000 values: show a part"):
        prepare(Approval(subject="x", evidence=[JsonValue(value=list(range(MOST_NODES)))]), None)


@pytest.mark.parametrize(
    ("pattern", "states"), [("abc", 3), ("a{3}", 3), ("(ab){2,5}c", 16), (r"\d{4}-\d\d", 25), ("[a-z{3}]{2}", 8)]
)
def test_the_states_of_a_pattern_are_counted_with_its_repetitions(pattern: str, states: int) -> None:
    assert states_of(pattern) == states


def test_a_part_with_a_schema_of_its_own_has_the_checks_of_the_whole() -> None:
    inner = {"$schema": DRAFT, "pattern": r"(?=a)b"}
    assert "cannot be checked" in problems_of({"properties": {"x": inner}}, {"x": "b"})[0]["msg"]


def test_unique_items_are_compared_as_json_schema_says() -> None:
    unique = {"uniqueItems": True}
    for value in ([1, True], [0, False], [[1], [True]], [{"a": 1}, {"a": "1"}], [1, "1"], [None, False]):
        assert problems_of(unique, value) == []
    for value in ([1, 1.0], [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], [[], []], ["x", "x"]):
        assert problems_of(unique, value)[0]["msg"] == "Must not contain duplicates"


def test_a_field_beyond_the_limit_of_a_form_is_sent_back_as_it_was() -> None:
    part = {"type": "object", "properties": {f"field_{place}": {"type": "string"} for place in range(60)}}
    schema = {"type": "object", "properties": {f"part_{number}": part for number in range(60)}}
    value = {"part_59": {"field_3": "kept"}}
    form = FormView.from_schema(schema, initial=value)
    last = next(found for found in walk(form.root) if found.name in {"part_59$", "part_59.0$"})
    post = QueryDict("part_59?=0", mutable=True)
    post[last.name] = last.text
    assert form.bind(post).value == value
    post[last.name] = '{"field_3": 7}'
    assert [one.message for one in form.bind(post).complaints] == ["field_3: Must be text"]


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"[]," * 4_000_000 + b"[]]",
        b'{"a":"' + b'\\"' * 6_000_000,
        b'"' * 12_000_000,
        b'{"a":"' + b",[{" * 4_000_000 + b'"}',
    ],
)
def test_the_values_of_a_text_are_counted_without_reading_it(text: bytes) -> None:
    assert cpu_of(lambda: has_more_values(text, MOST_NODES)) < MOST_SECONDS
    assert has_more_values(text, MOST_NODES) == text.startswith(b"[[")


def test_of_what_a_text_quotes_nothing_is_a_value() -> None:
    assert not has_more_values(b'{"a,[{": "\\",,,", "b": [1, 2]}', 6)
    assert has_more_values(b'{"a": [1, 2, 3, 4, 5]}', 5)

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from checkpoints.limits import depth_of
from wfdash.values.schemas.validate import problems_of


class Claim(BaseModel):
    amount: Annotated[float, Field(gt=0, le=500)]
    currency: Literal["EUR", "USD"] = "EUR"
    note: str | None = None
    tags: list[str] = []


SCHEMA = TypeAdapter(Claim).json_schema()


def messages(value: object) -> dict[str, str]:
    return {".".join(map(str, problem["loc"])): problem["msg"] for problem in problems_of(SCHEMA, value)}


def test_a_value_that_fits_has_no_problems() -> None:
    assert problems_of(SCHEMA, {"amount": 12.5, "note": None, "tags": ["a"]}) == []


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        ({}, "amount", "This field is required"),
        ({"amount": 9999}, "amount", "Must be 500 or less"),
        ({"amount": 0}, "amount", "Must be more than 0"),
        ({"amount": "12"}, "amount", "Must be a number"),
        ({"amount": 1, "currency": "GBP"}, "currency", "Must be one of: EUR, USD"),
        ({"amount": 1, "note": 7}, "note", "Must be text"),
        ({"amount": 1, "tags": ["a", 2]}, "tags.1", "Must be text"),
        ([], "", "Must be a group of fields"),
    ],
)
def test_each_problem_names_its_field_in_words(value: object, field: str, words: str) -> None:
    assert words in messages(value)[field]


def test_every_problem_is_reported_not_only_the_first() -> None:
    assert set(messages({"amount": -1, "currency": "X", "tags": "a"})) == {"amount", "currency", "tags"}


def test_a_field_that_does_not_exist_is_named() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert problems_of(schema, {"b": 1}) == [{"loc": ["b"], "msg": "Unknown field"}]


def test_a_value_nested_too_deep_is_refused_without_recursion() -> None:
    value: list[object] = []
    for _ in range(40_000):
        value = [value]
    assert depth_of(value) == 33
    assert "nested deeper" in problems_of({}, value)[0]["msg"]


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/$defs/nowhere"}, {"$ref": "http://127.0.0.1:9/schema.json"}, {"type": "string", "pattern": "("}],
)
def test_a_broken_schema_is_said_and_fetches_nothing(schema) -> None:
    (problem,) = problems_of(schema, "text")
    assert "schema of this value is invalid" in problem["msg"]

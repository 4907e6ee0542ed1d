"""What is wrong is said at the field that is to be changed, with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from wfdash.values.schemas.validate import display, problems_of

CAT = {"properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"], "type": "object"}
DOG = {"properties": {"kind": {"const": "dog"}, "good": {"type": "boolean"}}, "required": ["kind"], "type": "object"}


@pytest.mark.parametrize(
    ("schema", "value", "place", "words"),
    [
        ({"minLength": 5}, "abc", "", "Must have at least 5 characters: add 2"),
        ({"maxLength": 2}, "abc", "", "Must have at most 2 characters: leave out 1"),
        ({"minItems": 2}, [1], "", "Must have at least 2 items: add 1"),
        ({"maxItems": 1}, [1, 2, 3], "", "Must have at most 1 item: remove 2"),
        ({"minProperties": 1}, {}, "", "Must have at least 1 field: add 1"),
        ({"maximum": 400000}, 500000, "", "Must be 400,000 or less"),
        ({"pattern": "^[A-Z]$", "examples": ["A"]}, "a", "", "Must match the pattern ^[A-Z]$, such as A"),
        ({"enum": ["a", None, True]}, "b", "", "Must be one of: a, empty, yes"),
        ({"format": "date"}, "x", "", "Must be a date such as 2026-11-21"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "b", "Required with a"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "", "The name 'ab': must have at most 1 characters"),
        ({"properties": {"a": False}}, {"a": 1}, "a", "Must be empty"),
        ({"not": {"const": 1}}, 1, "", "This value is not allowed"),
        ({"oneOf": [{}, {}]}, 1, "", "Matches several alternatives"),
        ({"anyOf": [CAT, DOG]}, {"kind": "dog", "good": "no"}, "good", "Must be yes or no"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, [], "", "Must be a whole number or text"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1}]}, [], "", "Must have at least 1 item"),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, "b", "This field is required"),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "", "Too many items"),
    ],
)
def test_each_rule_is_told_with_its_remedy(schema: dict[str, Any], value: Any, place: str, words: str) -> None:
    (problem, *others) = problems_of(schema, value)
    assert (".".join(map(str, problem["loc"])), others) == (place, [])
    assert problem["msg"].startswith(words)


def test_numbers_and_nothing_are_told_as_people_read_them() -> None:
    assert [display(value) for value in (1234567.0, 0.5, None, True, "x", [1])] == [
        "1,234,567",
        "0.5",
        "empty",
        "yes",
        "x",
        "[1]",
    ]

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import pytest
from pydantic import BaseModel, SecretStr, TypeAdapter

from tests.schemas.test_work import MOST_SECONDS, branching, cpu_of
from wfdash.values.schemas.secrets import MOST_SHOWN, sample


class Leaf(BaseModel):
    amount: Decimal
    key: SecretStr
    note: str | None
    items: list[int]
    spare: int = 4


class Tree(BaseModel):
    leaf: Leaf
    kind: Literal["a", "b"]
    below: Tree | None = None
    twins: tuple[int, str] | None = None


def test_the_required_fields_are_given_and_nothing_else():
    assert sample(TypeAdapter(Tree).json_schema()) == {
        "leaf": {"amount": 0, "key": "<key>", "note": "", "items": []},
        "kind": "a",
    }


def test_a_reference_into_a_list_is_followed():
    pair = {"type": "array", "prefixItems": [{"const": "left"}, {"const": "right"}]}
    assert sample({"$ref": "#/$defs/pair/prefixItems/1", "$defs": {"pair": pair}}) == "right"


@pytest.mark.parametrize("fields", [1, 2, 5, 10, 9_000])
def test_of_a_schema_that_grows_with_each_level_the_sample_has_the_outer_fields(fields):
    schema = branching(fields)
    assert cpu_of(lambda: sample(schema)) < MOST_SECONDS
    assert len(str(sample(schema))) < 2 * MOST_SHOWN
    assert len(sample(schema)) == (2 if fields == 9_000 else fields)


def test_a_long_example_is_left_out_wherever_it_is_referred_to():
    schema = {"$defs": {"x": {"type": "string", "examples": ["x" * 300_000]}}, "required": list("abc")}
    assert sample({**schema, "properties": {key: {"$ref": "#/$defs/x"} for key in "abc"}}) == {"a": ""}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, None),
        ({"type": "null"}, None),
        ({"type": "string", "default": "x"}, "x"),
        ({"type": "integer", "examples": [7]}, 7),
        ({"const": 0}, 0),
        ({"enum": ["b", "a"]}, "b"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, False),
        ({"type": "object"}, {}),
        ({"type": "string", "format": "password"}, "<secret>"),
        ({"$ref": "#/nowhere"}, None),
        ({"type": "string", "examples": "odd"}, ""),
    ],
)
def test_whatever_the_schema_there_is_a_value(schema, value):
    assert sample(schema) == value

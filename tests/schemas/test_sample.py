from __future__ import annotations

from decimal import Decimal
from typing import Literal

import pytest
from pydantic import BaseModel, SecretStr, TypeAdapter

from wfdash.values.schemas.secrets import sample


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


class Endless(BaseModel):
    next: Endless


def test_a_schema_without_an_end_has_a_sample_with_one():
    assert sample(TypeAdapter(Endless).json_schema())["next"]


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

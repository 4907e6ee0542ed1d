"""A form that is sent as it was drawn gives the value it was drawn for: any schema, absent and null kept apart.

``WFDASH_LONG=1`` (``make answers``) tries 5,000 schemas.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.forms.browser import draw, send
from tests.pages.controls import post_of
from wfdash.values.schemas.validate import flaws_of
from wfdash.web.pages.ui.forms.form import FormView
from wfdash.web.pages.ui.forms.read import same

LONG = os.environ.get("WFDASH_LONG") == "1"
NULL = {"type": "null"}
TEXTS = st.text(st.sampled_from("a0. $#!@?*\r\n\t\x0b\x0c\x1f\x7f\x85\u2028~/\"<&'é"), max_size=3)
NAMES = st.sampled_from(["a", "b", "0", "x.y", "*", "", "é"])
LEAVES: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "boolean"}, st.booleans()),
    ({"type": "integer"}, st.integers(-3, 3)),
    ({"type": "number"}, st.sampled_from([0.5, 1.0, 2.25])),
    ({"type": "string"}, TEXTS),
    ({"enum": ["a", "b"]}, st.sampled_from("ab")),
    (
        {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True},
        st.lists(st.sampled_from("xy"), unique=True),
    ),
    ({"const": "k"}, st.just("k")),
    (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False, "minItems": 2},
        st.tuples(st.integers(0, 3), st.booleans()).map(list),
    ),
]
Typed = tuple[dict[str, Any], st.SearchStrategy[Any]]


def list_of(inner: Typed) -> Typed:
    return {"type": "array", "items": inner[0]}, st.lists(inner[1], max_size=2)


def mapping_of(inner: Typed) -> Typed:
    return {"type": "object", "additionalProperties": inner[0]}, st.dictionaries(TEXTS, inner[1], max_size=2)


def or_null(inner: Typed) -> Typed:
    return {"anyOf": [inner[0], NULL]}, st.none() | inner[1]


def either(pair: tuple[Typed, Typed]) -> Typed:
    return {"anyOf": [pair[0][0], pair[1][0]]}, pair[0][1] | pair[1][1]


def group_of(fields: list[tuple[str, Typed, bool]]) -> Typed:
    known = {name: (inner, required) for name, inner, required in fields}
    schema = {
        "type": "object",
        "properties": {name: inner[0] for name, (inner, _) in known.items()},
        "required": [name for name, (_, required) in known.items() if required],
        "additionalProperties": False,
    }
    needed = {name: inner[1] for name, (inner, required) in known.items() if required}
    other = {name: inner[1] for name, (inner, required) in known.items() if not required}
    return schema, st.fixed_dictionaries(needed, optional=other)


def grown(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    groups = st.lists(st.tuples(NAMES, inner, st.booleans()), min_size=1, max_size=3).map(group_of)
    pairs = st.tuples(inner, inner).map(either)
    return inner.map(list_of) | inner.map(mapping_of) | inner.map(or_null) | groups | pairs


SCHEMAS = st.recursive(st.sampled_from(LEAVES), grown, max_leaves=4)


def of_field(schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    needed = ["v"] if required else []
    return {"type": "object", "properties": {"v": schema}, "required": needed, "additionalProperties": False}


def sent(schema: dict[str, Any], value: Any) -> Any:
    return send(FormView.from_schema(schema, initial=value)).value


@settings(
    max_examples=5000 if LONG else 60,
    deadline=None,
    derandomize=not LONG,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data(), st.booleans())
def test_what_is_sent_unchanged_is_unchanged(data: st.DataObject, required: bool) -> None:
    inner, values = data.draw(SCHEMAS)
    given_value = data.draw(values.map(lambda value: {"v": value}) if required else absent_or(values))
    assume(not flaws_of(given_value))
    back = sent(of_field(inner, required=required), given_value)
    assert same(back, given_value), back


def absent_or(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | values.map(lambda value: {"v": value})


OPTIONAL = [
    {"type": "boolean"},
    {"type": "integer"},
    {"type": "string"},
    {"type": "string", "format": "date"},
    {"enum": ["a", "b"]},
    {"const": "k"},
    {"type": "string", "contentMediaType": "application/pdf", "contentEncoding": "base64"},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "integer"}}},
]


@pytest.mark.parametrize("kind", OPTIONAL, ids=str)
def test_null_stays_null_and_absent_stays_absent_in_an_optional_field_without_a_default(kind: dict[str, Any]) -> None:
    schema = of_field({"anyOf": [kind, NULL]}, required=False)
    assert sent(schema, {"v": None}) == {"v": None}
    assert sent(schema, {}) == {}


@pytest.mark.parametrize("outer", ["0", "", "a.0", "$", "#!", "\x1f"])
@pytest.mark.parametrize("inner", ["\r", "\n", "a\r\nb", "", "0", "$"])
def test_a_mapping_keeps_its_names_whatever_is_in_the_mappings_inside(outer: str, inner: str) -> None:
    kind = {"type": "object", "additionalProperties": {"type": "integer"}}
    schema = of_field({"type": "object", "additionalProperties": kind}, required=True)
    assert sent(schema, {"v": {outer: {inner: 1}}}) == {"v": {outer: {inner: 1}}}


def test_a_row_that_is_shown_as_json_is_removed_and_moved_like_any_other() -> None:
    schema = of_field({"type": "array", "items": {"type": "integer"}}, required=True)
    drawn = draw(FormView.from_schema(schema, initial={"v": [1, {"odd": 2}, 3]}))
    up, gone = post_of(drawn), post_of(drawn)
    up["_up"] = re.findall(r'name="_up"\s+value="([^"]*)"', drawn)[1]
    gone["_remove"] = re.findall(r'name="_remove"\s+value="([^"]*)"', drawn)[1]
    form = FormView.from_schema(schema)
    assert form.bind(up).value == {"v": [{"odd": 2}, 1, 3]}
    assert form.bind(gone).value == {"v": [1, 3]}

"""Values come back from JSON exactly as they went in, or are refused with their path."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from wfdash.values.codec import codec_for
from wfdash.workflow.errors import NotStorable, WrongType


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    where: tuple[int, str]


class Everything(BaseModel):
    money: Decimal
    at: datetime
    color: Color
    keys: dict[int, Point]
    kind: Literal["a", "b"] = "a"
    loose: Any = None


def whole(loose: Any = None) -> Everything:
    at = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    point = Point(x=1, where=(2, "b"))
    return Everything(money=Decimal("1.10"), at=at, color=Color.RED, keys={1: point}, loose=loose)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Everything, whole()),
        (Point, Point(x=1, where=(1, "a"))),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (dict[int, str], {1: "a"}),
        (Decimal, Decimal("1.50")),
        (date, date(2026, 1, 1)),
        (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (Color, Color.RED),
        (bytes, b"text"),
        (int | None, None),
        (list[Everything], [whole()]),
        (int, 2**80),
    ],
)
def test_declared_types_survive(kind: Any, value: Any):
    codec = codec_for(kind)
    data = json.loads(json.dumps(codec.encode(value)))
    back = codec.decode(data)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (Any, {1: "a"}, "value: key 1"),
        (Any, {"a": [(1,)]}, "value.a[0]"),
        (Any, Decimal(1), "value"),
        (Any, datetime(2026, 1, 1, tzinfo=UTC), "value"),
        (Any, Color.RED, "value"),
        (Any, b"x", "value"),
        (Any, [1.0, float("nan")], "value[1]"),
        (Any, "\ud800", "value"),
        (dict, {"a": {2: 3}}, "value.a"),
        (float, float("inf"), "value"),
        (Everything, whole(loose=(1, 2)), "value.loose"),
        (Everything, whole(loose={"a": Decimal(1)}), "value.loose"),
        (bytes, b"\xff", "value"),
    ],
)
def test_the_rest_is_refused_with_its_path(kind: Any, value: Any, path: str):
    with pytest.raises(NotStorable) as caught:
        codec_for(kind).encode(value)
    assert str(caught.value).startswith(path)


def test_decoding_wrong_data_says_where():
    with pytest.raises(WrongType, match="message: money"):
        codec_for(Everything).decode({"money": "x"}, "message")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_json_is_carried_unchanged_and_unshared(value: Any):
    codec = codec_for(Any)
    try:
        data = codec.encode(value)
    except NotStorable:
        assert "surrogate" in _why(value)
        return
    assert json.loads(json.dumps(data)) == value
    if isinstance(value, (list, dict)):
        assert data is not value


def _why(value: Any) -> str:
    try:
        codec_for(Any).encode(value)
    except NotStorable as error:
        return str(error)
    return ""

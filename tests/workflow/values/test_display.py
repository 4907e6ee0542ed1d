"""Any value becomes JSON for the eye."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from wfdash.values.display import MAX_DEPTH, OPAQUE, to_display

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aé漢"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab"), inner, max_size=4),
)


class Size(IntEnum):
    SMALL = 3


class Model(BaseModel):
    raw: bytes
    amount: Decimal


@dataclass
class Point:
    x: int
    at: date


class Hostile(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")


@given(JSON)
def test_json_stays_as_it_is(value: Any):
    assert to_display(value) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Model(raw=b"ok", amount=Decimal("1.50")), {"raw": "ok", "amount": "1.50"}),
        (Point(1, date(2026, 1, 2)), {"x": 1, "at": "2026-01-02"}),
        ({1: (2, 3), Size.SMALL: Size.SMALL}, {"1": [2, 3], "3": 3}),
        (math.nan, "nan"),
        ("a\x00b\ud800", "a\u2400b\ufffd"),
        (b"\xff", {OPAQUE: "bytes", "size": 1, "repr": "b'\\xff'"}),
    ],
)
def test_python_becomes_json(value: Any, shown: Any):
    assert to_display(value) == shown


def test_bytes_in_a_model_do_not_hide_the_rest_of_it():
    shown = to_display(Model(raw=b"\xff\xfe", amount=Decimal(1)))
    assert (shown["raw"][OPAQUE], shown["amount"]) == ("bytes", "1")


def test_what_has_no_json_keeps_type_and_repr():
    shown = to_display({"f": len, "t": object, "h": Hostile(a=1), "n": 10**5000})
    assert [shown[key][OPAQUE] for key in "ftn"] == ["builtin_function_or_method", "type", "int"]
    assert shown["h"][OPAQUE] == "Hostile"
    json.dumps(shown)


def test_nothing_is_used_up_and_nothing_is_waited_for():
    endless = itertools.count()
    assert to_display(endless)[OPAQUE] == "count"
    assert next(endless) == 0


def test_circles_depth_and_multitudes_are_bounded():
    circle: list[Any] = []
    circle.append(circle)
    assert to_display(circle)[0][OPAQUE] == "list"
    deep: Any = 1
    for _ in range(MAX_DEPTH * 3):
        deep = [deep]
    json.dumps(to_display(deep))
    doubled: Any = []
    for _ in range(40):
        doubled = [doubled, doubled]
    assert len(json.dumps(to_display(doubled))) < 20_000_000

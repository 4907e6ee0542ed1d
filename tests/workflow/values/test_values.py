"""Values as they are stored, shown, and kept in a position."""

from __future__ import annotations

import asyncio
import enum
import itertools
import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, NotRequired, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from checkpoints.records import Checkpoint
from tests.workflow.test_cut_anywhere import BLOCKS, Witness, make, play
from wfdash.values.codec import codec_for
from wfdash.values.display import MAX_DEPTH, OPAQUE, to_display
from wfdash.workflow.errors import NotStorable, WrongType
from wfdash.workflow.reducer.moment import new_moment
from wfdash.workflow.stored import (
    Activation,
    GroupState,
    JoinState,
    JournalEntry,
    Position,
    RecordedAnswer,
    RecordedError,
    StoredTranscript,
    position_in,
    unsure_calls,
)


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
class ShownPoint:
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
        (ShownPoint(1, date(2026, 1, 2)), {"x": 1, "at": "2026-01-02"}),
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


STORED = {
    Position: "next v live joins asked outputs loose since past wrote levels labels transcripts",
    Activation: "step message scope journal rounds born attempt attempts retry_at queued parked called used",
    JournalEntry: "k name t o again request prints seen renewed answer once keyed schema args at differed result raised"
    " failed unknown stopped until label done",
    RecordedAnswer: "value by at n acting_for others lapsed",
    RecordedError: "type args facts at",
    JoinState: "t scope turn got rounds fired",
    StoredTranscript: "step messages",
    GroupState: "t scope group got rounds loose",
}
KEPT = Path(__file__).parent / "positions.json"
"""Checkpoints in the middle of every kind of block, as version 0.1.0 wrote them. Never written again."""


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_the_stored_keys_are_the_ones_that_databases_hold(kind: Any):
    assert set(kind.__annotations__) == set(STORED[kind].split())


def keys_fit(value: dict[str, Any], kind: Any) -> None:
    hints = get_type_hints(kind, include_extras=True)
    assert value.keys() <= hints.keys()
    assert {key for key, hint in hints.items() if get_origin(hint) is not NotRequired} <= value.keys()


def check_keys(position: Any) -> None:
    keys_fit(position, Position)
    for record in position["live"].values():
        keys_fit(record, Activation)
        for entry in record["journal"]:
            keys_fit(entry, JournalEntry)
    for entry in position["joins"].values():
        keys_fit(entry, GroupState if "group" in entry else JoinState)


def test_every_checkpoint_of_a_run_with_every_kind_of_block_has_these_keys_alone():
    seen: list[Checkpoint] = []
    for cuts in ([], [9, 3], [14]):
        witness = Witness()
        seen += asyncio.run(play(make(list(BLOCKS), witness), {"message": 3}, cuts, witness.truth))[1]
    for checkpoint in seen:
        check_keys(checkpoint.body["position"])
        assert position_in(checkpoint.body) is checkpoint.body["position"]


@pytest.mark.parametrize("n", range(7))
def test_a_checkpoint_that_was_stored_before_is_carried_on_to_the_same_end(n: int):
    kept = Checkpoint.model_validate(json.loads(KEPT.read_text())[n])
    check_keys(kept.body["position"])
    wf, witness = make(list(BLOCKS), Witness()), Witness()
    output, _, _ = asyncio.run(play(wf, {"checkpoint": kept}, [], _truth))
    expected, _, _ = asyncio.run(play(make(list(BLOCKS), witness), {"message": 3}, [], witness.truth))
    assert output == expected


def _truth(request: Any) -> Any:
    return 2 if request.kind != "effect" else {"action": "again"}


def test_a_position_before_the_start_has_every_key_but_those_of_sub_workflows():
    check_keys(new_moment().position)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"position": None},
        {"position": {"at": "second"}},
        {"position": {"live": [1]}},
        {"position": {"live": {"1": {"step": "a"}}}},
    ],
)
def test_a_body_of_another_engine_has_no_position_here(body: dict[str, Any]):
    assert position_in(body) is None


def test_a_call_is_unsure_until_it_has_a_result_or_the_run_was_stopped_for_it():
    journal: list[JournalEntry] = [
        {"k": "call", "name": "read"},
        {"k": "call", "name": "pay", "once": True, "unknown": True},
        {"k": "call", "name": "book", "once": True, "result": [None, 1]},
        {"k": "call", "name": "post", "once": True, "stopped": "ana"},
    ]
    record: Activation = {"step": "a", "message": [None, 1], "scope": "", "journal": journal}
    assert unsure_calls(record) == ["pay"]

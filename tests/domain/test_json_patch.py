from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfdash.domain.json_patch import PatchFailed, apply, make, parts_of, pointer, same

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KEYS = st.text(max_size=4) | st.sampled_from(["a/b", "~", "~1", "", "-", "0"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=25
)


@given(VALUES, VALUES)
def test_a_patch_leads_from_one_value_to_the_other_and_changes_neither(before, after):
    kept = json.dumps(before)
    assert same(apply(make(before, after), before), after)
    assert json.dumps(before) == kept


@given(VALUES)
def test_equal_values_have_no_patch(value):
    assert make(value, json.loads(json.dumps(value))) == []


@given(st.lists(VALUES, max_size=8), st.lists(VALUES, max_size=8), st.lists(VALUES, max_size=8))
def test_lists_that_share_their_ends_are_patched_between_them(head, tail, middle):
    patch = make([*head, *tail], [*head, *middle, *tail])
    assert same(apply(patch, [*head, *tail]), [*head, *middle, *tail])


@given(VALUES, VALUES)
def test_a_patch_is_never_longer_than_replacing_all(before, after):
    whole = [{"op": "replace", "path": "", "value": after}]
    assert len(json.dumps(make(before, after))) <= max(len(json.dumps(whole)), 2)


def test_a_small_change_has_a_small_patch():
    before = {"claims": [{"id": n, "note": "x" * 50} for n in range(2000)], "a/b": {"~": 1}}
    after = json.loads(json.dumps(before))
    after["claims"][7]["note"] = "y"
    after["a/b"]["~"] = True
    del after["claims"][1999]
    assert make(before, after) == [
        {"op": "replace", "path": "/claims/7/note", "value": "y"},
        {"op": "remove", "path": "/claims/1999"},
        {"op": "replace", "path": "/a~1b/~0", "value": True},
    ]


def test_pointers_survive_their_round_trip():
    assert pointer(["a/b", 0, "~1"]) == "/a~1b/0/~01"
    assert parts_of("/a~1b/0/~01") == ["a/b", "0", "~1"]


def test_every_operation_of_the_standard_is_applied():
    patch = [
        {"op": "test", "path": "/a", "value": [1, 2]},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "add", "path": "/a/0", "value": 0},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "move", "from": "/a/3", "path": "/c"},
        {"op": "remove", "path": "/a/0"},
        {"op": "replace", "path": "/b/0", "value": None},
    ]
    assert apply(patch, {"a": [1, 2]}) == {"a": [1, 2], "b": [None, 1, 2, 3], "c": 3}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "add", "path": "/a/9", "value": 1},
        {"op": "add", "path": "/a/01", "value": 1},
        {"op": "test", "path": "/a/0", "value": True},
        {"op": "move", "from": "/a", "path": "/a/0"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "nothing", "path": ""},
        {"op": "add", "path": "/b"},
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(operation):
    value = {"a": [1]}
    with pytest.raises(PatchFailed):
        apply([operation], value)
    assert value == {"a": [1]}


def test_what_is_nested_too_deep_is_replaced_as_a_whole():
    before: object = 1
    after: object = 2
    for _ in range(150):
        before, after = [before], [after]
    assert apply(make(before, after), before) == after

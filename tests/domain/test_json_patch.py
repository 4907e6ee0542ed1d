from __future__ import annotations

import json
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from wfdash.domain.json_patch import make, parts_of, same

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KEYS = st.text(max_size=4) | st.sampled_from(["a/b", "~", "~1", "", "-", "0"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=25
)


def patched(value, patch):
    """Return the value after operations that add, remove or replace."""
    whole = {"": json.loads(json.dumps(value))}
    for operation in patch:
        *path, last = ["", *parts_of(operation["path"])]
        place = reduce(lambda at, part: at[int(part) if isinstance(at, list) else part], path, whole)
        adds = operation["op"] == "add"
        if isinstance(place, list):
            assert 0 <= int(last) < len(place) + adds
            place[int(last) : int(last) + (not adds)] = [operation["value"]] if "value" in operation else []
        elif operation["op"] == "remove":
            del place[last]
        else:
            place[last] = operation["value"]
    return whole[""]


@given(VALUES, VALUES)
def test_a_patch_leads_from_one_value_to_the_other_and_changes_neither(before, after):
    kept = json.dumps(before)
    assert same(patched(before, make(before, after)), after)
    assert json.dumps(before) == kept


@given(VALUES)
def test_equal_values_have_no_patch(value):
    assert make(value, json.loads(json.dumps(value))) == []


@given(st.lists(VALUES, max_size=8), st.lists(VALUES, max_size=8), st.lists(VALUES, max_size=8))
def test_lists_that_share_their_ends_are_patched_between_them(head, tail, middle):
    assert same(patched([*head, *tail], make([*head, *tail], [*head, *middle, *tail])), [*head, *middle, *tail])


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


def test_what_is_nested_too_deep_is_replaced_as_a_whole():
    before, after = 1, 2
    for _ in range(150):
        before, after = [before], [after]
    assert patched(before, make(before, after)) == after

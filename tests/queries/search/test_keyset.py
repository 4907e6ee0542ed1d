from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from wfdash.queries.search import KeysetOrder

ORDER = KeysetOrder(columns=("-risk", "created", "id"))
PLACE = {"risk": 3, "created": datetime(2026, 1, 5, tzinfo=UTC), "id": "a"}
AT = {"at": "2026-01-05T00:00:00+00:00"}


def written(values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def test_a_cursor_survives_its_round_trip():
    assert ORDER.place(ORDER.cursor(PLACE)) == PLACE


@pytest.mark.parametrize("cursor", ["", "x", "!!!", "bm90IGpzb24", "W10", "eyJhIjogMX0"])
def test_a_damaged_cursor_starts_at_the_top(cursor):
    assert ORDER.place(cursor) is None


@pytest.mark.parametrize(
    "values",
    [
        [{}, AT, "a"],
        [3, {}, "a"],
        [3, "then", "a"],
        [3, {"at": "2026-01-05"}, "a"],
        [3, {"at": "0001-01-01T00:00:00+23:00"}, "a"],
        [3, AT, 5],
        [10**30, AT, "a"],
        [None, AT, "a"],
        [3, AT, "\0"],
        ["3", AT, "a"],
        [True, [], "a"],
    ],
)
def test_a_forged_cursor_starts_at_the_top(values):
    assert ORDER.place(written(values)) is None


def test_a_cursor_of_another_order_is_none():
    assert KeysetOrder(columns=("created", "id")).place(ORDER.cursor(PLACE)) is None


@pytest.mark.parametrize("n", [2**63, "5", None])
def test_a_number_of_an_audit_entry_is_one_that_a_database_knows(n):
    order = KeysetOrder(columns=("-n",))
    assert order.place(written([5])) == {"n": 5}
    assert order.place(written([n])) is None


def test_backwards_is_the_opposite():
    assert ORDER.backwards().columns == ("risk", "-created", "-id")
    assert ORDER.backwards().backwards() == ORDER

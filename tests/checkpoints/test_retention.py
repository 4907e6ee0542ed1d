from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.config import CheckpointConfig, Needs, PrunePlan, decide
from checkpoints.errors import InvalidConfig
from checkpoints.ids import CheckpointId, RunId, WorkflowId
from checkpoints.records import CheckpointInfo, Reason

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def info(n: int, **changes: Any) -> CheckpointInfo:
    """Return checkpoint ``n`` of 100 bytes, as many hours old as ``n`` is below 100."""
    plain: dict[str, Any] = {
        "id": CheckpointId(f"c{n}"),
        "run": RunId("r"),
        "workflow": WorkflowId("w"),
        "n": n,
        "version": "v",
        "created": NOW - timedelta(hours=100 - n),
        "size": 100,
    }
    return CheckpointInfo(**{**plain, **changes})


def history(count: int, **changes: dict[str, Any]) -> list[CheckpointInfo]:
    """Return checkpoints ``count`` to 1; ``c3={...}`` changes the third."""
    return [info(n, **changes.get(f"c{n}", {})) for n in range(count, 0, -1)]


def kept(plan: PrunePlan) -> list[int]:
    """Return the n of what stays, newest first."""
    return [decision.checkpoint.n for decision in plan.kept]


def plan(infos: list[CheckpointInfo], *, needs: Needs | None = None, **config: Any) -> PrunePlan:
    """Decide about a run that has ended, unless the needs say otherwise."""
    return decide(infos, CheckpointConfig(**config), needs or Needs(ended=True), NOW)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"keep": 1}, [5]),
        ({"keep": 3}, [5, 4, 3]),
        ({"keep": 9}, [5, 4, 3, 2, 1]),
        ({"keep_age": timedelta(hours=97)}, [5, 4, 3]),
        ({"keep_bytes": 250}, [5, 4]),
        ({"keep_bytes": 1}, [5]),
        ({"keep": 4, "keep_bytes": 350, "keep_age": timedelta(days=40)}, [5, 4, 3]),
    ],
)
def test_the_limits_say_what_stays(config: dict[str, Any], expected: list[int]) -> None:
    assert kept(plan(history(5), **config)) == expected


def test_every_decision_says_why() -> None:
    infos = history(6, c4={"label": "audit"}, c3={"reason": Reason.PAUSE})
    found = plan(infos, needs=Needs(ended=True, origins=frozenset({CheckpointId("c2")})), keep=2, keep_pauses=True)
    assert [(d.checkpoint.n, d.keep, d.why) for d in found.decisions] == [
        (6, True, "the newest: the run continues from it, and its requests are pending in it"),
        (5, True, "within the limits"),
        (4, True, "labelled 'audit'"),
        (3, True, "people were asked here"),
        (2, True, "another run was forked from it"),
        (1, False, "not among the newest 2"),
    ]


def test_every_limit_that_is_passed_is_named() -> None:
    found = plan(history(2), keep=1, keep_age=timedelta(hours=2), keep_bytes=150).removed
    assert [d.why for d in found] == [
        "not among the newest 1; older than 2:00:00; with it the newest are more than 150 bytes"
    ]


def test_labels_origins_and_pauses_go_if_the_policy_says_so() -> None:
    infos = history(4, c3={"label": "audit"}, c2={"reason": Reason.PAUSE})
    needs = Needs(ended=True, origins=frozenset({CheckpointId("c1")}))
    assert kept(plan(infos, needs=needs, keep=1, keep_labelled=False, keep_origins=False)) == [4]


def test_the_newest_good_one_stays_when_newer_ones_are_damaged() -> None:
    assert kept(plan(history(5, c5={"clean": False}, c4={"clean": False}), keep=1)) == [5, 3]


def test_a_run_that_has_not_ended_keeps_everything_if_the_policy_says_so() -> None:
    config: dict[str, Any] = {"keep": 1, "while_open": "keep"}
    assert kept(plan(history(3), needs=Needs(ended=False), **config)) == [3, 2, 1]
    assert kept(plan(history(3), needs=Needs(ended=True), **config)) == [3]


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 10_000)), min_size=1, max_size=30),
    st.none() | st.integers(1, 5),
    st.none() | st.timedeltas(timedelta(seconds=1), timedelta(days=9)),
    st.none() | st.integers(1, 20_000),
    st.booleans(),
)
def test_whatever_the_policy_a_run_can_always_go_on(
    rows: list[tuple[bool, bool, int]], keep: Any, age: Any, size: Any, ended: bool
) -> None:
    count = len(rows)
    infos = [
        info(count - place, clean=clean, label="pin" if label else None, size=bytes_)
        for place, (clean, label, bytes_) in enumerate(rows)
    ]
    config = CheckpointConfig(keep=keep, keep_age=age, keep_bytes=size)
    found = decide(infos, config, Needs(ended=ended), NOW)
    assert [d.checkpoint for d in found.decisions] == infos
    stays = {d.checkpoint.id for d in found.kept}
    assert infos[0].id in stays
    assert {i.id for i in infos if i.label} <= stays
    assert all(i.id in stays for i in [next((i for i in infos if i.clean), infos[0])])


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"when": 0}, "when"),
        ({"when": "often"}, "when"),
        ({"keep": 0}, "keep"),
        ({"keep": "many"}, "keep"),
        ({"keep_age": timedelta()}, "keep_age"),
        ({"keep_bytes": 0}, "keep_bytes"),
        ({"while_open": "keep"}, "while_open"),
        ({"kept": 3}, "kept"),
        ({"when": True}, "when"),
        ({"keep": True}, "keep"),
        ({"keep": "3"}, "keep"),
        ({"keep_bytes": 2.0}, "keep_bytes"),
    ],
)
def test_a_contradiction_names_its_field(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{field}"):
        CheckpointConfig(**settings)


def test_a_policy_is_read_from_json() -> None:
    config = CheckpointConfig.read('{"keep": 50, "keep_age": "P30D", "when": 5}')
    assert config == CheckpointConfig(keep=50, keep_age=timedelta(days=30), when=5)
    assert CheckpointConfig.read(config.model_dump_json()) == config


@pytest.mark.parametrize("text", ["", "[]", "{", '"keep"', '{"keep": -1}'])
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig):
        CheckpointConfig.read(text)


def test_presets_are_policies() -> None:
    assert CheckpointConfig.every_step() == CheckpointConfig()
    assert CheckpointConfig.pauses().when == "pause"
    assert CheckpointConfig.lean(7).keep == 7
    assert CheckpointConfig.dashboard().while_open == "keep"

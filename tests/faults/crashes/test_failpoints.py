"""A process dies at every point around commits, effects and verbs; the next one goes on as if nothing had been."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.checks import Promised, look
from tests.faults.ledger import read_facts
from tests.faults.worlds import World

pytestmark = pytest.mark.process

PLACES = {
    "commit before": {"start", "step", "call intended", "call done", "standing waiting", "standing completed"},
    "commit after": {"start", "step", "call intended", "call done", "standing waiting", "standing completed"},
    "effect before": {"once: not yet happened"},
    "effect after": {"once: happened, result not recorded"},
    "verb inside": {"start: in its transaction", "answer: in its transaction"},
    "verb after": {"start: committed, not acknowledged", "answer: committed, not acknowledged"},
}


def test_a_run_survives_a_death_at_every_point(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "points"
    folder.mkdir()
    given = {"folder": str(folder), "workflows": ["pay"], "ledger": str(world.ledger)}
    points = world.play("crashes.failpoints.fail_everywhere", **given, most=2)
    assert {(point["died"], point["went on"]) for point in points} == {(137, 0)}
    reached = Counter((point["kind"], point["label"]) for point in points)
    assert {(kind, label) for kind, labels in PLACES.items() for label in labels} <= reached.keys()
    findings = look(world.tables(), world.ledger, promised_in(folder / "acks.jsonl"))
    assert findings.problems() == {}
    assert findings.seen["unknown outcomes"] >= 6


def promised_in(acks: Path) -> Promised:
    """Return what processes were told before they died."""
    facts = read_facts(acks)
    return Promised(
        starts={str(fact["key"]): str(fact["run"]) for fact in facts if "key" in fact},
        answers={str(fact["request"]): fact["value"] for fact in facts if "request" in fact},
    )

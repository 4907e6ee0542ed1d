"""Stored bytes rot or vanish: the run says so and waits for a decision. It never begins again from the start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.ledger import read_ledger
from tests.faults.tables import Tables
from tests.faults.worlds import World

pytestmark = pytest.mark.process

Damage = Callable[[Tables, str], None]
NEWEST = "(SELECT id FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n DESC LIMIT 1)"


def rot_the_body(tables: Tables, run: str) -> None:
    body = f"UPDATE checkpoints_checkpoint SET body=replace(body, ':', ';') WHERE id={NEWEST}"
    tables.change(body, run)


def cut_the_body(tables: Tables, run: str) -> None:
    tables.change(f"UPDATE checkpoints_checkpoint SET body=substr(body, 1, 60) WHERE id={NEWEST}", run)


def empty_the_body(tables: Tables, run: str) -> None:
    tables.change(f"UPDATE checkpoints_checkpoint SET body='' WHERE id={NEWEST}", run)


def rot_the_chunks(tables: Tables, run: str) -> None:
    tables.change("UPDATE checkpoints_chunk SET data=x'00' WHERE family=?", run)


def lose_the_chunks(tables: Tables, run: str) -> None:
    tables.change("DELETE FROM checkpoints_chunk WHERE family=?", run)


def lose_the_newest(tables: Tables, run: str) -> None:
    tables.change(f"DELETE FROM checkpoints_checkpoint WHERE id={NEWEST}", run)


def lose_them_all(tables: Tables, run: str) -> None:
    tables.change("DELETE FROM checkpoints_checkpoint WHERE run_id=?", run)


DAMAGES: list[Damage] = [rot_the_body, cut_the_body, empty_the_body, rot_the_chunks, lose_the_chunks, lose_them_all]


def parked(world: World) -> str:
    """Return a run that waits for a person, with a state that fills chunks."""
    run = world.play("start", workflow="heavy", number=1, ledger=str(world.ledger))
    assert world.play("drive", runs=[run], until=["waiting"]) == ["waiting"]
    return str(run)


def begun(world: World) -> list[str]:
    return [line.step for line in read_ledger(world.ledger) if line.kind == "begin"]


@pytest.mark.parametrize("damage", [*DAMAGES, lose_the_newest])
def test_a_damaged_run_fails_with_that_reason_and_repeats_nothing(world: World, damage: Damage) -> None:
    run, before = parked(world), begun(world)
    damage(world.tables(), run)
    assert world.play("live_through", runs=[run], ledger=str(world.ledger)) == ["failed"]
    found = world.tables().run(run)
    assert found["error"]["type"] == "Damaged"
    assert begun(world) == before
    assert world.tables().events(run)[-1]["kind"] == "run.failed"


def test_after_damage_an_older_good_checkpoint_can_be_restored(world: World) -> None:
    run = parked(world)
    rot_the_body(world.tables(), run)
    assert world.play("live_through", runs=[run], ledger=str(world.ledger)) == ["failed"]
    older = world.tables().checkpoints(run)[-2]["id"]
    world.play("restore", run=run, checkpoint=older)
    assert world.play("live_through", runs=[run], ledger=str(world.ledger)) == ["completed"]
    assert world.tables().run(run)["output"] == 40

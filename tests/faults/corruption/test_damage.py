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


def rot_the_text(tables: Tables, run: str) -> None:
    tables.change(f"UPDATE checkpoints_checkpoint SET body=CAST(body || x'ff' AS TEXT) WHERE id={NEWEST}", run)


def put_an_older_one_on_top(tables: Tables, run: str) -> None:
    """One bit of its number changed, an older checkpoint would be the newest."""
    older = f"n < (SELECT max(n) FROM checkpoints_checkpoint WHERE run_id=?) AND run_id=? AND id<>{NEWEST}"
    first = f"(SELECT min(n) FROM checkpoints_checkpoint WHERE {older})"
    change = f"UPDATE checkpoints_checkpoint SET n=n+1024 WHERE run_id=? AND n={first}"
    tables.change(change, run, run, run, run)


def lose_the_newest(tables: Tables, run: str) -> None:
    tables.change(f"DELETE FROM checkpoints_checkpoint WHERE id={NEWEST}", run)


def lose_them_all(tables: Tables, run: str) -> None:
    tables.change("DELETE FROM checkpoints_checkpoint WHERE run_id=?", run)


DAMAGES: list[Damage] = [
    rot_the_body,
    cut_the_body,
    empty_the_body,
    rot_the_text,
    rot_the_chunks,
    lose_the_chunks,
    put_an_older_one_on_top,
    lose_the_newest,
    lose_them_all,
]


def park(world: World, count: int) -> list[str]:
    """Return runs that wait for a person, with a state that fills chunks."""
    runs = world.play("start_many", workflow="heavy", numbers=list(range(count)), ledger=str(world.ledger))
    assert world.play("drive", runs=runs, until=["waiting"]) == ["waiting"]
    return [str(run) for run in runs]


def test_a_damaged_run_fails_with_that_reason_repeats_nothing_and_can_be_restored(world: World) -> None:
    """Each run is damaged in its own way, its request is answered, and workers look at it."""
    runs, tables = park(world, len(DAMAGES)), world.tables()
    begun = read_ledger(world.ledger)
    for run, damage in zip(runs, DAMAGES, strict=True):
        damage(tables, run)
    assert world.play("live_through", runs=runs, ledger=str(world.ledger)) == ["failed"]
    assert read_ledger(world.ledger) == begun
    for run, damage in zip(runs, DAMAGES, strict=True):
        assert (damage.__name__, tables.run(run)["error"]["type"]) == (damage.__name__, "Damaged")
        assert tables.events(run)[-1]["kind"] == "run.failed"
    rotten = runs[DAMAGES.index(rot_the_body)]
    world.play("restore", run=rotten, checkpoint=tables.checkpoints(rotten)[-2]["id"])
    assert world.play("live_through", runs=[rotten], ledger=str(world.ledger)) == ["completed"]
    assert tables.run(rotten)["output"] == 40

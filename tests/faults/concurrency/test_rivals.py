"""Several processes want the same thing at once: a run, a request, the storage."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.e2e.server import wait_until
from tests.faults.checks import Promised, look
from tests.faults.concurrency.sleepers import freeze_and_wake
from tests.faults.conftest import DATABASES, NIGHTLY, RIVALS
from tests.faults.crashes.people import LOOK_SECONDS
from tests.faults.ledger import read_facts
from tests.faults.worlds import World

pytestmark = pytest.mark.process
NOTHING = Promised(starts={}, answers={})
ROUNDS = 60
FREEZES = 12


@pytest.mark.parametrize("database", RIVALS)
def test_of_two_answers_at_once_exactly_one_wins_and_the_loser_learns_who(any_world: World) -> None:
    run = any_world.play("open_requests", count=ROUNDS)
    told = any_world.play("answer_at_once", run=run, people=2)
    winners = {outcome["request"]: outcome["by"] for outcome in told if outcome["won"]}
    losers = [outcome for outcome in told if not outcome["won"]]
    assert Counter(outcome["won"] for outcome in told) == {True: ROUNDS, False: ROUNDS}
    assert len(winners) == ROUNDS
    assert all(loser["winner"] == winners[loser["request"]] for loser in losers)
    stored = {request["id"]: request["value"] for request in any_world.tables().requests(run)}
    assert stored == {request: f"by {name}" for request, name in winners.items()}


@pytest.mark.parametrize("database", RIVALS)
def test_a_person_and_their_stand_in_who_vote_at_once_are_one_vote(any_world: World) -> None:
    told = any_world.play("vote_at_once", count=15)
    assert len(set(told["won"])) == told["votes"] == 15
    assert told["decided"] == 0


@pytest.mark.parametrize("database", DATABASES)
def test_four_processes_save_into_one_storage_and_every_save_is_there(any_world: World) -> None:
    runs = any_world.play("save_at_once", processes=4, saves=50)
    kept = {run: [row["n"] for row in any_world.tables().checkpoints(run)] for run in runs}
    assert kept == {run: list(range(1, 51)) for run in runs}


@pytest.mark.parametrize("database", DATABASES)
def test_pruning_beside_commits_and_forks_takes_nothing_that_anyone_needs(any_world: World) -> None:
    told = any_world.play("concurrency.gardeners.prune_beside", steps=24, seed=7)
    assert told["wrong"] == []
    assert told["seen"]["runs"] > 16
    assert told["seen"]["pruned"] > 16


def test_a_worker_that_slept_through_its_lease_writes_nothing_once_it_wakes_up(shared_world: World) -> None:
    world, tables = shared_world, shared_world.tables()
    sleeper = world.worker("sleeper", ttl=1.0, heartbeat=0.3).start()
    other = world.worker("other", ttl=1.0, heartbeat=0.3)
    runs = world.play("start_many", workflow="march", numbers=[80] * 4, ledger=str(world.ledger))
    try:
        wait_until(lambda: by_process(world).get(sleeper.pid, set()) >= set(runs), what="a commit of all")
        sleeper.send(signal.SIGSTOP)
        open_runs = {run["id"] for run in tables.runs() if run["phase"] == "ready"}
        other.start()
        wait_until(
            lambda: by_process(world).get(other.pid, set()) >= open_runs, what="the take-over", pause=LOOK_SECONDS
        )
        sleeper.send(signal.SIGCONT)
        wait_until(lambda: tables.count() == len(runs), what="the end of every run", pause=LOOK_SECONDS)
    finally:
        sleeper.kill()
        other.kill()
    findings = look(tables, world.ledger, NOTHING, world.commits)
    assert open_runs
    assert (findings.stale_writes, findings.holes, findings.wrong_ends) == ([], [], [])


@NIGHTLY
def test_a_worker_frozen_anywhere_even_in_a_transaction_loses_its_run_and_writes_nothing_more(
    shared_world: World,
) -> None:
    seen, wrong = freeze_and_wake(shared_world, rounds=FREEZES, seed=7)
    assert wrong == []
    assert seen["epochs"] >= FREEZES


def by_process(world: World) -> dict[int, set[str]]:
    """Return which process has committed for which runs."""
    found: dict[int, set[str]] = {}
    for commit in read_facts(world.commits):
        found.setdefault(int(str(commit["pid"])), set()).add(str(commit["run"]))
    return found

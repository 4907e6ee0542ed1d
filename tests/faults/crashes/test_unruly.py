"""Steps that block, kill or outlive their process, beside runs that do nothing of the kind."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.e2e import server as servers
from tests.faults.conftest import NIGHTLY
from tests.faults.crashes import unruly
from tests.faults.crashes.people import LOOK_SECONDS
from tests.faults.ledger import read_facts
from tests.faults.worlds import World

pytestmark = pytest.mark.process
wait_until = partial(servers.wait_until, pause=LOOK_SECONDS)


def begun(world: World, workflow: str) -> Counter[str]:
    """Return how often the step of each run of a workflow began, by the run's number."""
    return Counter(str(line["key"]) for line in read_facts(world.ledger) if line["step"] == workflow)


@pytest.fixture
def make_unruly(make_world: Callable[[str], World], monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    def make(database: str, *, block: float = unruly.BLOCK_SECONDS) -> World:
        world = make_world(database)
        world.graphs = Path(unruly.__file__)
        monkeypatch.setenv("UNRULY_BLOCK", str(block))
        return world

    return make


@pytest.mark.parametrize("workflow", [pytest.param("plain", marks=NIGHTLY), "blocker"])
def test_a_worker_ends_soon_when_it_is_told_to_whatever_its_steps_do(make_unruly, workflow: str) -> None:
    world = make_unruly("sqlite", block=60)
    worker = world.worker("told", drain=1.0).start()
    try:
        world.play("start_many", workflow=workflow, numbers=[1], ledger=str(world.ledger))
        wait_until(lambda: begun(world, workflow), what="the step's begin")
        time.sleep(0.5)
        asked = time.monotonic()
        worker.send(signal.SIGTERM)
        assert worker.wait(20) == 0
        assert time.monotonic() - asked < 12
    finally:
        worker.kill()


@pytest.mark.usefixtures("postgres")
def test_a_blocked_worker_loses_none_of_its_runs_to_another(make_unruly) -> None:
    world = make_unruly("postgres", block=9)
    workers = [world.worker(name, ttl=4.0, heartbeat=0.5).start() for name in ("one", "two")]
    try:
        world.play("start_each", numbers={"calm": list(range(20)), "blocker": [99]}, ledger=str(world.ledger))
        wait_until(lambda: world.tables().count() == 21, what="the end of every run")
    finally:
        for worker in workers:
            worker.kill()
    assert set(begun(world, "calm").values()) == {1}
    assert begun(world, "blocker") == {"99": 1}
    assert not world.tables().read("SELECT * FROM checkpoints_event WHERE kind='run.recovered'")


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=NIGHTLY)])
def test_a_run_that_ends_its_process_fails_none_of_its_neighbours(make_unruly, count: int) -> None:
    """A supervisor starts the worker again and again; the poison ends it each time that it is taken."""
    world = make_unruly("sqlite")
    tables, deaths = world.tables(), 0
    worker = world.worker("poisoned", ttl=1.0, heartbeat=0.2).start()
    try:
        # The poison first: neighbours that had all ended before it was taken would have had nothing to survive.
        world.play("start_each", numbers={"poison": [99], "calm": list(range(count))}, ledger=str(world.ledger))
        end = time.monotonic() + 40 + 6 * count
        while (deaths < 2 or tables.count() < count) and time.monotonic() < end:
            if worker.has_ended():
                deaths += 1
                worker.start()
            time.sleep(0.1)
    finally:
        worker.kill()
    assert deaths >= 2
    assert tables.count() == count
    assert tables.count("'failed'") == 0

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from checkpoints.models import Claim, Event, WorkerBeat
from checkpoints.sql.claims import DueLook
from tests.worker.conftest import phase_of, reaches, until
from tests.workflow.world import flow
from wfdash.actions.runs.lifecycle import start_run
from wfdash.worker.due_runs import DueRuns, Takeovers
from wfdash.workflow import Workflow


def allowed(looks: list[float], *, took: float = 0.0) -> list[bool]:
    """Return in which looks, at so many seconds, a worker may take over runs of others."""
    takeovers, found = Takeovers(grace=4.0, absence=3.0), []
    for at in looks:
        takeovers.begun(at)
        takeovers.ended(at + took)
        found.append(takeovers.allowed)
    return found


def test_a_worker_that_looks_each_second_takes_over_what_others_left() -> None:
    assert allowed([0, 1, 2.9, 5]) == [True] * 4


def test_a_worker_that_was_away_gives_the_others_time_to_renew_what_is_theirs() -> None:
    assert allowed([0, 1, 30, 31, 33.9, 34, 35]) == [True, True, False, False, False, True, True]


@pytest.mark.parametrize("among_others", [True, False])
def test_a_worker_that_begins_beside_others_gives_them_that_time_too(among_others) -> None:
    takeovers, found = Takeovers(grace=4.0, absence=3.0), []
    for at in (0.0, 1.0, 3.9, 4.0, 5.0):
        takeovers.begun(at, among_others=lambda: among_others)
        takeovers.ended(at)
        found.append(takeovers.allowed)
    assert found == ([False, False, False, True, True] if among_others else [True] * 5)


def test_a_hint_that_comes_before_the_first_look_takes_over_nothing() -> None:
    takeovers = Takeovers(grace=4.0, absence=3.0)
    assert not takeovers.allowed
    takeovers.begun(0.0)
    assert takeovers.allowed, "where it is alone"


def test_a_look_that_takes_long_is_no_absence() -> None:
    assert allowed([0, 10, 20], took=9.0) == [True] * 3


def test_where_every_look_comes_late_the_runs_of_dead_workers_are_taken_over_in_the_end() -> None:
    assert allowed([0, 5, 10, 15, 20]) == [True, False, True, False, True]


def test_a_worker_that_saw_no_claim_may_look_seldom_but_not_be_away_for_longer_than_one_lasts() -> None:
    takeovers = Takeovers(grace=4.0, absence=3.0)
    found = []
    for at in (0, 3.5, 7.0, 11.5):
        takeovers.begun(at)
        takeovers.ended(at, idle=True)
        found.append(takeovers.allowed)
    assert found == [True, True, True, False]


async def test_a_worker_looks_as_soon_as_a_claim_expires() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    async def nothing(**given: object) -> list[object]:
        return []

    given = {"worker": "w", "ttl": 4.0, "room": lambda: 1, "serves": lambda: None, "takes_over": lambda: True}
    storage = SimpleNamespace(now=lambda: now, claim_due=nothing)
    due = DueRuns(storage, **given, begin=lambda claim, since: None)  # type: ignore[arg-type]
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for expiry, soon in ((now - timedelta(seconds=60), True), (now + timedelta(seconds=3), False), (None, False)):
        await due.look(DueLook(now, expiry))
        began, rest = loop.time(), asyncio.create_task(due.rest(stopping))
        if not soon:
            await asyncio.sleep(0.2)
            assert not rest.done()
            due.wake()
            rest.cancel()
            continue
        await rest
        assert loop.time() - began < 0.9


def slow() -> tuple[Workflow, list[int], threading.Event]:
    """Return a workflow whose step has begun where it is in the list, and ends after the event."""
    let_go, began = threading.Event(), list[int]()

    def work(message: int) -> int:
        began.append(message)
        let_go.wait(20)
        return message

    return flow(work, name="slow"), began, let_go


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_a_step_keeps_its_run_whose_claim_expired_and_that_no_one_took(otto, serve, start_worker) -> None:
    workflow, began, let_go = slow()
    serve(workflow)
    start_worker(ttl=0.4, heartbeat=20.0)
    run = start_run(otto, "slow", 1)
    until(lambda: began)
    until(lambda: Claim.objects.filter(run=run.id, expires__lt=timezone.now()).exists())
    let_go.set()
    until(reaches(run, "completed"))
    assert began == [1]
    assert not Event.objects.filter(run=run.id, kind="run.recovered").exists()


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_stops_lives_until_its_last_step_has_ended_and_serves_nothing_more(
    otto, serve, start_worker
) -> None:
    workflow, began, let_go = slow()
    serve(workflow)
    worker = start_worker()
    run = start_run(otto, "slow", 1)
    until(lambda: began)
    assert WorkerBeat.objects.get().serves == {"slow": workflow.version}
    ending = threading.Thread(target=worker.stop, args=[60.0], kwargs={"drain": 60.0})
    ending.start()
    until(lambda: WorkerBeat.objects.get().serves == {})
    let_go.set()
    ending.join(60)
    assert phase_of(run) == "completed"
    assert not WorkerBeat.objects.exists()

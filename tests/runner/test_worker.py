from __future__ import annotations

import asyncio
import threading

import pytest
from django.db.models import F

from checkpoints import ids
from checkpoints.models import Claim, Event, HumanRequest, Run
from checkpoints.records import Commit, EventDraft, Phase, Request
from tests.runner.conftest import phase_of, reaches, until
from tests.runner.script import checkpoint_after, moved
from wfdash import desk, nudge
from wfdash.contract import Finished, Resume, Start, Waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

QUESTION = Request(key="q:0", step="ask", card={"subject": "Go on?"}, answer_schema={"type": "boolean"})


async def finish(given, recorder):
    end = checkpoint_after(given, "done")
    await recorder.commit(moved(end, "run.completed", Phase.COMPLETED, output="done"))
    return Finished(output="done", checkpoint=end)


async def ask_then_finish(given, recorder):
    if isinstance(given, Resume) and given.answers:
        return await finish(given, recorder)
    asked = checkpoint_after(given, "asked", QUESTION)
    commit = moved(asked, "request.opened", Phase.WAITING)
    await recorder.commit(commit.model_copy(update={"opened": (QUESTION,)}))
    return Waiting(requests=(QUESTION,), checkpoint=asked)


def kinds(run: Run) -> list[str]:
    return list(Event.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))


def test_a_started_run_is_driven_to_its_end_and_nobody_holds_it_any_more(otto, define, start_worker) -> None:
    define(finish)
    start_worker()
    run = desk.start_run(otto, "script", 1)
    until(reaches(run, "completed"))
    run.refresh_from_db()
    assert (run.output, run.n) == ("done", 1)
    assert not Claim.objects.exists()


def test_a_run_started_before_the_worker_is_found_by_the_sweep(otto, define, start_worker) -> None:
    define(finish)
    run = desk.start_run(otto, "script", 1)
    start_worker()
    until(reaches(run, "completed"))


def test_an_answer_resumes_the_parked_run(otto, define, start_worker) -> None:
    define(ask_then_finish)
    start_worker()
    run = desk.start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    desk.answer_request(otto, HumanRequest.objects.get().id, True)
    until(reaches(run, "completed"))
    assert kinds(run) == ["run.queued", "request.opened", "request.answered", "run.completed"]


def test_an_answer_whose_bell_was_lost_is_found_within_two_seconds(otto, define, start_worker, monkeypatch) -> None:
    define(ask_then_finish)
    start_worker()
    run = desk.start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    monkeypatch.setattr(nudge.runs_due, "ring", lambda _: None)
    desk.answer_request(otto, HumanRequest.objects.get().id, True)
    until(reaches(run, "completed"), within=4)


def test_an_engine_that_raises_fails_the_run_with_its_traceback_and_the_worker_goes_on(
    otto, define, start_worker
) -> None:
    async def crash(given, recorder):
        if given.message == "bad":
            raise RuntimeError("kaboom")
        return await finish(given, recorder)

    define(crash)
    start_worker()
    bad = desk.start_run(otto, "script", "bad")
    until(reaches(bad, "failed"))
    bad.refresh_from_db()
    assert bad.error["message"] == "kaboom"
    assert "RuntimeError" in bad.error["traceback"]
    good = desk.start_run(otto, "script", "good")
    until(reaches(good, "completed"))


def test_cancelling_stops_a_run_in_flight_and_it_stays_cancelled(otto, define, start_worker) -> None:
    entered, left = threading.Event(), threading.Event()

    async def hang(given, recorder):
        await recorder.commit(moved(checkpoint_after(given, 1)))
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            left.set()

    define(hang)
    start_worker(ttl=1.0, heartbeat=0.1)
    run = desk.start_run(otto, "script", 1)
    assert entered.wait(10)
    desk.cancel_run(otto, run.id)
    assert left.wait(10), "the step must be told to stop"
    assert phase_of(run) == "cancelled"


def test_a_worker_that_lost_its_claim_writes_nothing_more(otto, define, start_worker) -> None:
    entered, go = threading.Event(), threading.Event()

    async def slow(given, recorder):
        entered.set()
        await asyncio.to_thread(go.wait, 10)
        return await finish(given, recorder)

    define(slow)
    worker = start_worker(ttl=30, heartbeat=20)
    run = desk.start_run(otto, "script", 1)
    assert entered.wait(10)
    Claim.objects.filter(run=run).update(token=ids.new_token(), epoch=F("epoch") + 1)
    go.set()
    until(lambda: not worker.driving)
    assert phase_of(run) == "ready"
    assert kinds(run) == ["run.queued"]


def test_stopping_releases_what_is_in_flight_and_the_next_worker_goes_on(otto, define, start_worker) -> None:
    entered = threading.Event()

    async def wait_once(given, recorder):
        if isinstance(given, Start):
            await recorder.commit(moved(checkpoint_after(given, 1)))
            entered.set()
            await asyncio.sleep(60)
        return await finish(given, recorder)

    define(wait_once)
    worker = start_worker()
    run = desk.start_run(otto, "script", 1)
    assert entered.wait(10)
    worker.stop()
    assert phase_of(run) == "ready"
    assert not Claim.objects.exists()
    start_worker()
    until(reaches(run, "completed"))
    assert Run.objects.get(pk=run.id).n == 2


def test_an_expired_claim_is_taken_over_and_the_run_says_so(otto, define, start_worker) -> None:
    define(finish)
    run = desk.start_run(otto, "script", 1)
    Claim.objects.create(run=run, token=ids.new_token(), worker="dead", epoch=0, expires="2020-01-01T00:00Z")
    start_worker()
    until(reaches(run, "completed"))
    assert kinds(run) == ["run.queued", "run.recovered", "run.completed"]


def test_a_run_that_kills_every_worker_fails_with_the_reason_and_can_be_retried(otto, define, start_worker) -> None:
    define(finish)
    run = desk.start_run(otto, "script", 1)
    Run.objects.filter(pk=run.id).update(attempts=5)
    Claim.objects.create(run=run, token=ids.new_token(), worker="dead", epoch=0, expires="2020-01-01T00:00Z")
    start_worker()
    until(reaches(run, "failed"))
    run.refresh_from_db()
    assert "in a row" in run.error["message"]
    desk.retry_run(otto, run.id)
    until(reaches(run, "completed"))


def test_a_run_of_another_graph_is_held_and_keeps_its_place(otto, define, start_worker) -> None:
    define(ask_then_finish)
    worker = start_worker()
    run = desk.start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    worker.stop()
    define(ask_then_finish, version="v2")
    start_worker()
    desk.answer_request(otto, HumanRequest.objects.get().id, True)
    until(reaches(run, "paused"))
    run.refresh_from_db()
    assert run.error["type"] == "Incompatible"
    assert "cannot migrate" in run.error["message"]
    assert run.n == 1


def test_a_missing_checkpoint_is_said_and_never_a_fresh_start(otto, define, start_worker) -> None:
    define(finish)
    run = desk.start_run(otto, "script", 1)
    Run.objects.filter(pk=run.id).update(n=3)
    start_worker()
    until(reaches(run, "failed"))
    run.refresh_from_db()
    assert run.error["type"] == "Damaged"


def test_fifty_runs_go_on_side_by_side(otto, define, start_worker) -> None:
    high = [0, 0]

    async def meet(given, recorder):
        high[0] += 1
        high[1] = max(high)
        await recorder.commit(Commit(run=given.run, events=(EventDraft(kind="custom"),)))
        await asyncio.sleep(0.3)
        high[0] -= 1
        return await finish(given, recorder)

    define(meet)
    runs = [desk.start_run(otto, "script", number) for number in range(50)]
    start_worker()
    until(lambda: Run.objects.filter(phase="completed").count() == len(runs))
    assert high[1] > 25

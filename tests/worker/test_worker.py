from __future__ import annotations

import asyncio
import fcntl
import shutil
import sqlite3
import threading
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from django.db import connection, connections
from django.db.models import F
from django.utils import timezone

from checkpoints import claims, ids
from checkpoints.database.storage import DatabaseStorage
from checkpoints.events import EventKind
from checkpoints.models import Claim, HumanRequest, Run
from checkpoints.records import Commit, Phase, Request
from tests.people import kinds
from tests.worker.conftest import phase_of, reaches, until
from tests.worker.script import checkpoint_after, moved
from tests.workflow.world import flow
from wfdash import pubsub
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs import lifecycle
from wfdash.actions.runs.lifecycle import cancel_run, retry_run, start_run
from wfdash.contract import Finished, Resume, Start, Waiting
from wfdash.queries.runs.listing import read_run
from wfdash.web.pages.runs.header import plain, status_sentence
from wfdash.worker import due_runs, process
from wfdash.worker.loop_watchdog import Watchdog
from wfdash.worker.process import EmbeddedWorker
from wfdash.worker.worker import Worker
from wfdash.workflow import Context

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


def test_a_started_run_is_driven_to_its_end_and_no_one_holds_it_any_more(otto, define, start_worker) -> None:
    define(finish)
    start_worker()
    run = start_run(otto, "script", 1)
    until(reaches(run, "completed"))
    run.refresh_from_db()
    assert (run.output, run.n) == ("done", 1)
    assert not Claim.objects.exists()


def test_a_worker_executes_as_many_runs_at_once_as_the_settings_say(otto, define, start_worker, settings) -> None:
    settings.WFDASH_LIMIT = 1
    entered, go = [], threading.Event()

    async def blocked(given, recorder):
        entered.append(given.run)
        await asyncio.to_thread(go.wait, 60)
        return await finish(given, recorder)

    define(blocked)
    worker = start_worker()
    runs = [start_run(otto, "script", 1) for _ in range(2)]
    until(lambda: entered)
    assert worker.driving == 1
    go.set()
    for run in runs:
        until(reaches(run, "completed"))


def test_hints_that_come_at_once_give_a_worker_no_more_than_its_limit(monkeypatch) -> None:
    async def claim_due(*, limit: int, runs: list[str], **asked: object) -> list[SimpleNamespace]:
        await asyncio.sleep(0)
        return [SimpleNamespace(run=run, facts=None) for run in runs[:limit]]

    async def execute(worker: Worker, claim: object, since: float) -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        storage: Any = SimpleNamespace(claim_due=claim_due)
        worker = Worker(storage, limit=2)
        await asyncio.gather(*(worker.take(f"run-{number}") for number in range(8)))
        assert worker.driving == 2

    monkeypatch.setattr(Worker, "_advance", execute)
    monkeypatch.setattr(Watchdog, "watch", lambda watchdog: None)
    asyncio.run(story())


def test_runs_of_a_workflow_with_a_limit_follow_one_another_at_once_and_say_what_they_wait_for(
    otto, define, start_worker, monkeypatch
) -> None:
    # Only a place that comes free makes it look again.
    monkeypatch.setattr(due_runs, "LOOK_SECONDS", 3_600.0)
    inside, most, go = 0, 0, threading.Event()

    async def counted(given, recorder):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.to_thread(go.wait, 60)
        inside -= 1
        return await finish(given, recorder)

    define(counted, limit=2)
    runs = [start_run(otto, "script", 1) for _ in range(5)]
    start_worker()
    waits = "Waiting for a free place: 2 of 2 runs of this workflow execute"
    until(lambda: plain(status_sentence(read_run(otto, runs[-1].pk)), timezone.now()) == waits)
    go.set()
    for run in runs:
        until(reaches(run, "completed"))
    assert most == 2


def test_a_run_started_before_the_worker_is_found_by_the_sweep(otto, define, start_worker) -> None:
    define(finish)
    run = start_run(otto, "script", 1)
    start_worker()
    until(reaches(run, "completed"))


def test_an_answer_resumes_the_parked_run(otto, define, start_worker) -> None:
    define(ask_then_finish)
    start_worker()
    run = start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    answer_request(otto, HumanRequest.objects.get().id, True)
    until(reaches(run, "completed"))
    assert kinds(run) == ["run.queued", "request.opened", "request.answered", "run.completed"]


def test_an_engine_that_suspends_without_closing_an_answered_request_fails_at_once(otto, define, start_worker) -> None:
    drives = []

    async def keep_the_answer(given, recorder):
        drives.append(given)
        return await ask_then_finish(given.model_copy(update={"answers": {}}), recorder)

    define(ask_then_finish)
    start_worker()
    run = start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    define(keep_the_answer)
    answer_request(otto, HumanRequest.objects.get().id, True)
    until(reaches(run, "failed"))
    run.refresh_from_db()
    assert "answer to q:0 and suspended the run without closing that request" in run.error["message"]
    assert len(drives) == 1


@pytest.mark.alone
def test_an_answer_whose_bell_was_lost_is_found_within_two_seconds(otto, define, start_worker, monkeypatch) -> None:
    define(ask_then_finish)
    start_worker()
    run = start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    monkeypatch.setattr(pubsub.runs_due, "publish", lambda _: None)
    answer_request(otto, HumanRequest.objects.get().id, True)
    until(reaches(run, "completed"), within=4)


def test_an_engine_that_raises_fails_the_run_with_its_traceback_and_the_worker_goes_on(
    otto, define, start_worker
) -> None:
    async def crash(given, recorder):
        if given.message == "bad":
            raise RuntimeError("kaboom" + "!" * 30_000)
        return await finish(given, recorder)

    define(crash)
    start_worker()
    bad = start_run(otto, "script", "bad")
    until(reaches(bad, "failed"))
    bad.refresh_from_db()
    assert bad.error["message"][:9] == "kaboom!!!"
    assert {len(bad.error[part]) < 30_000 for part in ("message", "traceback")} == {True}
    assert "RuntimeError" in bad.error["traceback"][:15_000]
    good = start_run(otto, "script", "good")
    until(reaches(good, "completed"))


def test_an_outage_at_the_question_whether_a_run_is_to_end_fails_no_run(
    otto, define, start_worker, monkeypatch
) -> None:
    real, asked = lifecycle.end_after_step, list[object]()

    def be_away_at_first(*given: object, **how: object) -> object:
        asked.append(given)
        if len(asked) == 1:
            with connection.wrap_database_errors:
                raise sqlite3.OperationalError("unable to open database file")
        return real(*given, **how)

    async def two_steps(given, recorder):
        if not isinstance(given, Resume):
            # As after a takeover: someone may have asked for its end.
            recorder.wake()
            await recorder.commit(moved(checkpoint_after(given, "first")))
        return await finish(given, recorder)

    monkeypatch.setattr(lifecycle, "end_after_step", be_away_at_first)
    define(two_steps)
    start_worker()
    run = start_run(otto, "script", 1)
    until(lambda: asked and phase_of(run) in {"completed", "failed"})
    assert phase_of(run) == "completed"


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
    run = start_run(otto, "script", 1)
    assert entered.wait(60)
    cancel_run(otto, run.id)
    assert left.wait(60), "the step must be told to stop"
    assert phase_of(run) == "cancelled"


def test_a_worker_that_lost_its_claim_writes_nothing_more(otto, define, start_worker) -> None:
    entered, go = threading.Event(), threading.Event()

    async def slow(given, recorder):
        entered.set()
        await asyncio.to_thread(go.wait, 60)
        return await finish(given, recorder)

    define(slow)
    worker = start_worker(ttl=30, heartbeat=20)
    run = start_run(otto, "script", 1)
    assert entered.wait(60)
    Claim.objects.filter(run=run).update(token=ids.new_token(), epoch=F("epoch") + 1)
    go.set()
    until(lambda: not worker.driving)
    assert phase_of(run) == "ready"
    assert kinds(run) == ["run.queued"]


def test_a_renewal_between_the_last_commit_and_the_drives_end_takes_no_run_away(
    otto, define, start_worker, caplog
) -> None:
    ended = threading.Event()

    async def lingering(given, recorder):
        outcome = await finish(given, recorder)
        await recorder.renewer._renew()
        await asyncio.sleep(0)  # Here it was cancelled.
        await asyncio.sleep(0)
        ended.set()
        return outcome

    define(lingering)
    worker = start_worker(ttl=30, heartbeat=20)
    run = start_run(otto, "script", 1)
    until(reaches(run, "completed"))
    until(lambda: not worker.driving)
    assert ended.is_set()
    assert "was taken" not in caplog.text


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
    run = start_run(otto, "script", 1)
    assert entered.wait(60)
    worker.stop()
    assert phase_of(run) == "ready"
    assert not Claim.objects.exists()
    start_worker()
    until(reaches(run, "completed"))
    assert Run.objects.get(pk=run.id).n == 2


def test_an_expired_claim_is_taken_over_and_the_run_says_so(otto, define, start_worker) -> None:
    define(finish)
    run = start_run(otto, "script", 1)
    Claim.objects.create(run=run, token=ids.new_token(), worker="dead", epoch=0, expires="2020-01-01T00:00Z")
    start_worker()
    until(reaches(run, "completed"))
    assert kinds(run) == ["run.queued", "run.recovered", "run.completed"]


def test_a_run_that_kills_every_worker_fails_with_the_reason_and_can_be_retried(otto, define, start_worker) -> None:
    define(finish)
    run = start_run(otto, "script", 1)
    Run.objects.filter(pk=run.id).update(attempts=6)
    Claim.objects.create(run=run, token=ids.new_token(), worker="dead", epoch=0, expires="2020-01-01T00:00Z")
    start_worker(ttl=3.0, heartbeat=0.1)
    until(reaches(run, "failed"))
    run.refresh_from_db()
    assert "ended 7 times in a row" in run.error["message"]
    retry_run(otto, run.id)
    until(reaches(run, "completed"))


def test_suspects_are_driven_one_at_a_time_and_beside_the_others(otto, define, start_worker) -> None:
    inside: list[set] = [set()]
    in_the_meantime = threading.Event()

    async def step(given, recorder):
        if given.message == "fresh":
            in_the_meantime.set()
            return await finish(given, recorder)
        inside.append(inside[-1] | {given.run})
        try:
            await asyncio.to_thread(in_the_meantime.wait, 60)
            await asyncio.sleep(0.05)
            return await finish(given, recorder)
        finally:
            # A renewal that misses the claim which the last commit gave back cancels the rest of this.
            inside.append(inside[-1] - {given.run})

    define(step)
    suspected = [start_run(otto, "script", "suspect") for _ in range(3)]
    Run.objects.update(attempts=2)
    fresh = start_run(otto, "script", "fresh")
    start_worker(ttl=3.0, heartbeat=0.1)
    until(reaches(fresh, "completed"))
    for run in suspected:
        until(reaches(run, "completed"))
    assert {len(some) for some in inside} == {0, 1}


def test_a_suspect_waits_for_a_place_in_a_worker_that_is_full(otto, define, start_worker, monkeypatch) -> None:
    entered, leave, swept = threading.Event(), threading.Event(), threading.Semaphore(0)

    class Small(Worker):
        async def _sweep(self) -> None:
            await super()._sweep()
            swept.release()

    monkeypatch.setattr(process, "Worker", partial(Small, limit=1))

    async def step(given, recorder):
        entered.set()
        await asyncio.to_thread(leave.wait, 60)
        return await finish(given, recorder)

    define(step)
    first = start_run(otto, "script", 1)
    start_worker(ttl=1.0, heartbeat=0.3)
    assert entered.wait(60)
    suspected = start_run(otto, "script", 2)
    Run.objects.filter(pk=suspected.pk).update(attempts=2)
    while swept.acquire(blocking=False):
        pass
    for _ in range(2):
        assert swept.acquire(timeout=60)
    leave.set()
    until(reaches(first, "completed"))
    until(reaches(suspected, "completed"))


def test_a_suspect_whose_claim_failed_is_driven_at_a_later_look(otto, define, start_worker, monkeypatch) -> None:
    claim, failures = DatabaseStorage.claim, iter([OSError("the database is gone")])

    async def claim_at_the_second_attempt(*given, **more):
        for failure in failures:
            raise failure
        return await claim(*given, **more)

    monkeypatch.setattr(DatabaseStorage, "claim", claim_at_the_second_attempt)
    define(finish)
    run = start_run(otto, "script", 1)
    Run.objects.update(attempts=2)
    start_worker(ttl=0.5, heartbeat=0.1)
    until(reaches(run, "completed"))
    assert next(failures, None) is None


def test_a_suspect_that_survives_long_enough_makes_way_for_the_next(otto, define, start_worker, monkeypatch) -> None:
    monkeypatch.setattr(due_runs, "SURVIVED_SECONDS", 0.2)
    entered = threading.Semaphore(0)

    async def long(given, recorder):
        entered.release()
        await asyncio.sleep(60)

    define(long)
    runs = [start_run(otto, "script", 1) for _ in range(2)]
    Run.objects.update(attempts=2)
    start_worker(ttl=3.0, heartbeat=0.1)
    assert entered.acquire(timeout=60)
    assert entered.acquire(timeout=60)
    until(lambda: Run.objects.filter(attempts=0).count() == len(runs))


def test_a_loop_that_a_step_blocks_keeps_every_claim_of_its_worker(otto, define, start_worker) -> None:
    begun, blocked, renewed = [], threading.Event(), threading.Event()

    async def step(given, recorder):
        begun.append(given.run)
        if given.message == "block":
            while len(begun) < 6:
                await asyncio.sleep(0.01)
            blocked.set()
            renewed.wait(60)
        else:
            await asyncio.to_thread(blocked.wait, 60)
        return await finish(given, recorder)

    def expiries() -> dict[str, datetime]:
        return dict(Claim.objects.values_list("run", "expires"))

    define(step)
    runs = [start_run(otto, "script", "wait") for _ in range(5)]
    runs.append(start_run(otto, "script", "block"))
    start_worker(ttl=10, heartbeat=0.1)
    assert blocked.wait(60)
    for _ in range(3):
        before = expiries()
        assert len(before) == len(runs)
        until(lambda before=before: all(expiries()[run] > at for run, at in before.items()))
    renewed.set()
    for run in runs:
        until(reaches(run, "completed"))
        assert "run.recovered" not in kinds(run)
    assert sorted(begun) == sorted(run.id for run in runs)


def test_a_copied_data_directory_does_not_end_the_claims_of_the_first(otto, define, start_worker, tmp_path) -> None:
    entered = threading.Event()

    async def step(given, recorder):
        entered.set()
        await asyncio.sleep(60)

    define(step)
    start_worker()
    run = start_run(otto, "script", 1)
    assert entered.wait(60)
    claim = Claim.objects.get(run=run)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(tmp_path / "worker.lock", copy / "worker.lock")
    second = EmbeddedWorker(copy / "worker.lock")
    assert second.start()
    try:
        assert Claim.objects.get(run=run).token == claim.token
        assert Claim.objects.get(run=run).expires >= claim.expires
    finally:
        second.stop()


def test_a_run_of_another_graph_is_held_and_keeps_its_place(otto, define, start_worker) -> None:
    define(ask_then_finish)
    worker = start_worker()
    run = start_run(otto, "script", 1)
    until(reaches(run, "waiting"))
    worker.stop()
    define(ask_then_finish, version="v2")
    start_worker()
    answer_request(otto, HumanRequest.objects.get().id, True)
    until(reaches(run, "paused"))
    run.refresh_from_db()
    assert run.error["type"] == "Incompatible"
    assert "cannot migrate" in run.error["message"]
    assert run.n == 1


def test_a_missing_checkpoint_is_said_and_never_a_fresh_start(otto, define, start_worker) -> None:
    define(finish)
    run = start_run(otto, "script", 1)
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
        await recorder.commit(Commit(run=given.run, events=(EventKind.CUSTOM.draft(),)))
        await asyncio.sleep(0.3)
        high[0] -= 1
        return await finish(given, recorder)

    define(meet)
    runs = [start_run(otto, "script", number) for number in range(50)]
    start_worker()
    until(lambda: Run.objects.filter(phase="completed").count() == len(runs))
    assert high[1] > 25


def test_a_worker_that_wakes_up_begins_no_step_before_it_knows_that_the_run_is_its_own(
    otto, serve, start_worker, monkeypatch
) -> None:
    """Another worker took the run over while this process was stopped between two steps."""
    began = []
    slept = [0.0]
    real = claims.boottime
    monkeypatch.setattr(claims, "boottime", lambda: real() + slept[0])

    async def first(number: int, ctx: Context) -> int:
        began.append("first")
        await asyncio.to_thread(take_over, ctx.run_id)
        slept[0] = 3600
        try:
            await ctx.call(charge)
        except Exception:
            began.append("the step saw an error")
        return number

    def charge() -> None:
        began.append("charge")

    def take_over(run_id: str) -> None:
        Claim.objects.filter(run=run_id).update(token=ids.new_token(), worker="other")
        connections.close_all()

    serve(flow(first, name="woken"))
    worker = start_worker(ttl=30, heartbeat=20)
    start_run(otto, "woken", 1)
    until(lambda: began)
    until(lambda: not worker.driving)
    assert began == ["first"]


def test_a_worker_that_starts_again_in_its_directory_goes_on_at_once(otto, define, start_worker) -> None:
    define(finish)
    first = start_worker()
    home = first._home
    first.stop()
    run = start_run(otto, "script", 1)
    later = timezone.now() + timedelta(hours=1)
    Claim.objects.create(run=run, token=ids.new_token(), worker=f"{home}:1:killed", epoch=0, expires=later)
    start_worker()
    until(reaches(run, "completed"))
    assert "run.recovered" in kinds(run)


def test_an_embedded_worker_begins_once_the_database_takes_writes(otto, define, start_worker, monkeypatch) -> None:
    real, refusals = DatabaseStorage.expire_claims, [sqlite3.OperationalError("attempt to write a readonly database")]

    async def expire(storage, **given):
        if refusals:
            raise refusals.pop()
        return await real(storage, **given)

    monkeypatch.setattr(DatabaseStorage, "expire_claims", expire)
    define(finish)
    start_worker()
    until(reaches(start_run(otto, "script", 1), "completed"))


def test_a_second_server_of_a_data_directory_takes_over_once_the_first_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOCK_SECONDS", 0.02)
    began = threading.Event()

    def begin(worker: EmbeddedWorker, lock: IO[str]) -> None:
        lock.close()
        began.set()

    monkeypatch.setattr(EmbeddedWorker, "_begin", begin)
    with (tmp_path / "worker.lock").open("a+") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = EmbeddedWorker(tmp_path / "worker.lock")
        assert not second.start()
        assert not began.wait(0.1)
    assert began.wait(20)
    second.stop()


@pytest.mark.parametrize("stored", ["'{'", "CAST(x'22ff22' AS TEXT)"], ids=["no JSON", "no text"])
def test_a_run_whose_input_is_rotten_fails_and_says_so(otto, define, start_worker, stored: str) -> None:
    define(finish)
    run = start_run(otto, "script", 1)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE checkpoints_run SET input={stored}")
    start_worker()
    until(reaches(run, "failed"))
    assert Run.objects.values_list("error", flat=True).get()["type"] == "Damaged"

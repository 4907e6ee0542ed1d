"""Steps that are cut off, asked to end, or drained."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import AuditEntry, Claim, Event, HumanRequest, Run
from tests.worker.conftest import phase_of, reaches, until
from tests.workflow.world import flow, same
from wfdash import pubsub
from wfdash.actions.runs.lifecycle import cancel_run, end_abandoned, pause_run, resume_run, start_run
from wfdash.domain.errors import WrongState
from wfdash.queries.runs.listing import read_run
from wfdash.web.pages.runs.header import plain, status_sentence
from wfdash.worker.drive import Lease
from wfdash.worker.process import EmbeddedWorker
from wfdash.workflow import Approval, Context, Workflow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


class Stage:
    """Two steps: the first waits until it is let go."""

    def __init__(self, *, once: bool = False) -> None:
        self.entered, self.let_go, self.second = threading.Event(), threading.Event(), threading.Event()
        self.workflow = Workflow("two")

        async def wait() -> str:
            self.entered.set()
            while not self.let_go.is_set():
                await asyncio.sleep(0.01)
            return "charged"

        @self.workflow.step(start=True)
        async def charge(message: int, ctx: Context) -> str:
            return await ctx.call(wait, name="bank", once=True) if once else await wait()

        @self.workflow.step(after=charge)
        async def ship(message: str) -> str:
            self.second.set()
            return message


@pytest.fixture
def stage(serve, start_worker, otto):
    def begin(**said) -> tuple[Stage, Run]:
        made = Stage(**said)
        serve(made.workflow)
        start_worker()
        run = start_run(otto, "two", 1)
        assert made.entered.wait(10)
        return made, run

    return begin


def last(run: Run, kind: str) -> dict:
    return Event.objects.filter(run=run, kind=kind).order_by("-seq").first().data


def test_cancelling_names_the_step_that_it_cut_off(stage, otto) -> None:
    made, run = stage()
    cancel_run(otto, run.id)
    assert last(run, "run.cancelled") == {"by": "otto", "fenced": ["charge"]}
    assert AuditEntry.objects.get(verb="cancel").facts["fenced"] == ["charge"]
    made.let_go.set()


def test_cancelling_names_a_call_of_which_no_one_knows_whether_it_happened(stage, otto) -> None:
    made, run = stage(once=True)
    until(lambda: Event.objects.filter(run=run, kind="call.intended").exists())
    cancel_run(otto, run.id)
    assert last(run, "run.cancelled") == {"by": "otto", "fenced": ["charge"], "unsure": ["bank"]}
    made.let_go.set()


def test_a_run_that_is_to_end_after_its_step_keeps_the_step_and_starts_no_other(stage, otto) -> None:
    made, run = stage()
    cancel_run(otto, run.id, after_step=True)
    assert (phase_of(run), last(run, "run.ending")) == ("ready", {"by": "otto"})
    made.let_go.set()
    until(reaches(run, "cancelled"))
    kinds = list(Event.objects.filter(run=run).order_by("seq").values_list("kind", "step"))
    assert ("step.finished", "charge") in kinds
    assert last(run, "run.cancelled") == {"by": "otto", "after": "charge"}
    assert not made.second.is_set()
    row = Run.objects.get(pk=run.id)
    assert (row.ending, row.acted_by, row.n) == ("", "otto", 2)


@pytest.mark.parametrize("phase", ["paused", "cancelled"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_a_step_whose_worker_went_does_not_begin_again_in_a_run_that_is_to_end(
    serve, start_worker, otto, phase: str, killed: bool
) -> None:
    made = Stage()
    serve(made.workflow)
    worker = start_worker()
    run = start_run(otto, "two", 1)
    assert made.entered.wait(10)
    if killed:
        # What the tables look like after a SIGKILL: its claim, which has expired, and the wish.
        worker.stop()
        run.refresh_from_db()
        begun = timezone.now() - timedelta(seconds=1)
        Claim.objects.create(run=run, token="t", worker="killed", epoch=run.epoch, expires=begun)
        Run.objects.filter(pk=run.id).update(ending="otto", ending_as=phase)
    elif phase == "paused":
        pause_run(otto, run.id)
    else:
        cancel_run(otto, run.id, after_step=True)
    made.entered.clear()
    if not killed:
        worker.stop()
        assert phase_of(run) == phase
    start_worker()
    until(reaches(run, phase))
    assert not made.entered.is_set()
    assert last(run, f"run.{phase}")["by"] == "otto"
    if phase == "paused":
        made.let_go.set()
        resume_run(otto, run.id)
        until(reaches(run, "completed"))


def test_it_ends_there_even_if_the_bell_was_lost(stage, otto, monkeypatch) -> None:
    made, run = stage()
    ring = pubsub.runs_due.publish
    monkeypatch.setattr(pubsub.runs_due, "publish", lambda _: None)
    cancel_run(otto, run.id, after_step=True)
    monkeypatch.setattr(pubsub.runs_due, "publish", ring)
    end_abandoned()
    made.let_go.set()
    until(reaches(run, "cancelled"))
    assert not made.second.is_set()


def test_asking_twice_is_refused_and_cancelling_at_once_is_still_possible(stage, otto) -> None:
    made, run = stage()
    cancel_run(otto, run.id, after_step=True)
    with pytest.raises(WrongState, match="already requested this"):
        cancel_run(otto, run.id, after_step=True)
    assert cancel_run(otto, run.id).phase == "cancelled"
    made.let_go.set()


def test_pausing_instead_takes_the_wish_back(stage, otto) -> None:
    made, run = stage()
    cancel_run(otto, run.id, after_step=True)
    pause_run(otto, run.id, now=True)
    made.let_go.set()
    resume_run(otto, run.id)
    until(reaches(run, "completed"))
    assert made.second.is_set()


@pytest.mark.parametrize("phase", ["waiting", "ready"])
def test_where_nothing_runs_after_the_step_is_at_once(otto, phase) -> None:
    run = Run.objects.create(
        id="r", family="r", workflow="two", phase=phase, created=timezone.now(), updated=timezone.now()
    )
    HumanRequest.objects.create(id="q", run=run, key="k", workflow="two", step="s", kind="form", created=run.created)
    assert cancel_run(otto, run.id, after_step=True).phase == "cancelled"
    assert HumanRequest.objects.get().closed_as == "cancelled"


def test_a_run_whose_worker_died_before_the_step_ended_is_cancelled_by_the_sweep(otto) -> None:
    now = timezone.now()
    run = Run.objects.create(id="r", family="r", workflow="two", created=now, updated=now)
    claim = Claim.objects.create(run=run, token="t", worker="w", epoch=0, expires=now + timedelta(minutes=1))
    cancel_run(otto, run.id, after_step=True)
    assert end_abandoned() == 0
    Claim.objects.filter(pk=claim.pk).update(expires=now - timedelta(minutes=1))
    assert end_abandoned() == 1
    assert (phase_of(run), Claim.objects.count()) == ("cancelled", 0)


class Wide:
    """Two steps side by side, each let go by itself, and one after each."""

    def __init__(self) -> None:
        self.entered = {name: threading.Event() for name in ("left", "right")}
        self.let_go = {name: threading.Event() for name in ("left", "right")}
        self.began: list[str] = []
        self.workflow = wf = Workflow("wide")
        begin = wf.step(start=True, name="begin")(same)

        async def hold(name: str) -> str:
            self.began.append(name)
            self.entered[name].set()
            while not self.let_go[name].is_set():
                await asyncio.sleep(0.01)
            return name

        @wf.step(after=begin)
        async def left(message: int) -> str:
            return await hold("left")

        @wf.step(after=begin)
        async def right(message: int) -> str:
            return await hold("right")

        @wf.step(after=left)
        async def after_left(message: str) -> str:
            self.began.append("after_left")
            return message

        @wf.step(after=right)
        async def after_right(message: str) -> str:
            self.began.append("after_right")
            return message


def test_pausing_lets_every_step_that_runs_end_and_starts_no_other(serve, start_worker, otto) -> None:
    made = Wide()
    serve(made.workflow)
    start_worker()
    run = start_run(otto, "wide", 1)
    assert made.entered["left"].wait(10)
    assert made.entered["right"].wait(10)
    assert pause_run(otto, run.id).phase == "ready"
    assert last(run, "run.pausing") == {"by": "otto"}
    made.let_go["left"].set()
    until(lambda: Event.objects.filter(run=run, kind="step.finished", step="left").exists())
    assert phase_of(run) == "ready"
    made.let_go["right"].set()
    until(reaches(run, "paused"))
    assert last(run, "run.paused") == {"by": "otto"}
    assert sorted(made.began) == ["left", "right"]
    resume_run(otto, run.id)
    until(reaches(run, "completed"))
    assert sorted(made.began) == ["after_left", "after_right", "left", "right"]


def test_resuming_takes_a_pause_back_that_was_only_asked_for(serve, start_worker, otto) -> None:
    made = Wide()
    serve(made.workflow)
    start_worker()
    run = start_run(otto, "wide", 1)
    assert made.entered["left"].wait(10)
    pause_run(otto, run.id)
    with pytest.raises(WrongState, match="already requested this"):
        pause_run(otto, run.id)
    resume_run(otto, run.id)
    for event in made.let_go.values():
        event.set()
    until(reaches(run, "completed"))
    assert not Event.objects.filter(run=run, kind="run.paused").exists()


def test_cancelling_goes_before_a_pause_that_was_asked_for(stage, otto) -> None:
    made, run = stage()
    pause_run(otto, run.id)
    cancel_run(otto, run.id, after_step=True)
    with pytest.raises(WrongState, match="already requested this"):
        pause_run(otto, run.id)
    made.let_go.set()
    until(reaches(run, "cancelled"))


@pytest.fixture
def threaded(serve, start_worker, otto):
    """A plain function that runs in its thread until it is let go, however often it begins."""
    let_go, began = threading.Event(), []

    def work(message: int) -> int:
        began.append(threading.get_ident())
        let_go.wait(20)
        return message

    serve(flow(work, name="plain"))
    start_worker(ttl=2.0, heartbeat=0.2)
    run = start_run(otto, "plain", 1)
    until(lambda: began)
    yield run, let_go, began
    let_go.set()


def test_a_run_that_is_resumed_waits_for_a_function_that_still_runs(threaded, otto, tmp_path) -> None:
    run, let_go, began = threaded
    pause_run(otto, run.id, now=True)
    assert last(run, "run.paused") == {"by": "otto", "fenced": ["work"]}
    resume_run(otto, run.id)
    second = EmbeddedWorker(tmp_path / "second.lock", lease=Lease(ttl=2.0, heartbeat=0.2))
    assert second.start()
    try:
        time.sleep(2.5)
        view = read_run(otto, run.id)
        assert (len(began), view.status.value, view.lingers) == (1, "queued", True)
        assert "previous attempt in worker" in plain(status_sentence(view), timezone.now())
        let_go.set()
        until(reaches(run, "completed"))
        assert len(began) == 2
    finally:
        second.stop()


def test_anyone_who_does_not_want_to_wait_for_it_says_so(threaded, otto, tmp_path) -> None:
    run, _, began = threaded
    pause_run(otto, run.id, now=True)
    with pytest.raises(WrongState):
        resume_run(
            otto,
            Run.objects.create(id="r", family="r", workflow="plain", created=timezone.now(), updated=timezone.now()).id,
            force=True,
        )
    second = EmbeddedWorker(tmp_path / "second.lock", lease=Lease(ttl=2.0, heartbeat=0.2))
    assert second.start()
    try:
        resume_run(otto, run.id)
        resume_run(otto, run.id, force=True)
        assert last(run, "run.resumed") == {"by": "otto", "forced": True}
        until(lambda: len(began) == 2)
    finally:
        threaded[1].set()
        second.stop()


def test_a_cancelled_run_says_what_still_runs_until_it_has_ended(threaded, otto) -> None:
    run, let_go, _ = threaded
    cancel_run(otto, run.id)
    time.sleep(0.5)
    assert read_run(otto, run.id).lingers
    let_go.set()
    until(lambda: not Claim.objects.exists())
    assert not read_run(otto, run.id).lingers


def test_a_failed_run_is_not_retried_beside_what_it_left_behind(serve, start_worker, otto) -> None:
    wf, let_go, began = Workflow("torn"), threading.Event(), []
    begin = wf.step(start=True, name="begin")(same)

    @wf.step(after=begin)
    def work(message: int) -> int:
        began.append(message)
        let_go.wait(20)
        return message

    @wf.step(after=begin)
    async def fail(message: int) -> int:
        while not began:
            await asyncio.sleep(0.01)
        raise ValueError("torn")

    serve(wf)
    start_worker(ttl=2.0, heartbeat=0.2)
    run = start_run(otto, "torn", 1)
    until(reaches(run, "failed"))
    until(lambda: read_run(otto, run.id).lingers)
    let_go.set()
    until(lambda: not Claim.objects.exists())


CALLS = 10


class Shop:
    """Charges by a call that must happen once and takes until it is let go, then ships; or asks beside it."""

    def __init__(self) -> None:
        self.let_go, self.charging, self.shipped = threading.Event(), [], []
        self.workflow = Workflow("shop")

        @self.workflow.step(start=True)
        async def charge(message: int, ctx: Context) -> int:
            return await ctx.call(self.bank, message, once=True)

        @self.workflow.step(after=charge)
        async def ship(message: int) -> int:
            self.shipped.append(message)
            return message

        self.asking = Workflow("asking")

        @self.asking.step(start=True)
        async def begin(message: int) -> int:
            return message

        @self.asking.step(after=begin)
        async def ask(message: int, ctx: Context) -> str:
            return (await ctx.ask(Approval(subject="Ship?"))).action

        @self.asking.step(after=begin)
        async def beside(message: int, ctx: Context) -> int:
            return await ctx.call(self.bank, message, once=True)

    async def bank(self, message: int) -> int:
        self.charging.append(message)
        while not self.let_go.is_set():
            await asyncio.sleep(0.01)
        return message


@pytest.fixture
def shop(serve) -> Shop:
    shop = Shop()
    serve(shop.workflow)
    serve(shop.asking)
    return shop


def stopping(worker: EmbeddedWorker, *, drain: float) -> threading.Thread:
    """Ask it to stop, and return the thread that waits for its end."""
    thread = threading.Thread(target=worker.stop, args=[60.0], kwargs={"drain": drain})
    thread.start()
    until(lambda: worker._ready.result()[1]._stopping.is_set())
    return thread


def test_calls_that_must_happen_once_end_and_no_one_is_asked_about_them(otto, shop, start_worker) -> None:
    worker = start_worker()
    runs = [start_run(otto, "shop", number) for number in range(CALLS)]
    until(lambda: len(shop.charging) == CALLS)
    end = stopping(worker, drain=60.0)
    shop.let_go.set()
    end.join(60)
    assert not shop.shipped
    assert {phase_of(run) for run in runs} == {"ready"}
    assert not Claim.objects.exists()
    start_worker()
    until(lambda: Run.objects.filter(phase="completed").count() == CALLS)
    assert sorted(shop.charging) == sorted(shop.shipped) == list(range(CALLS))
    assert not HumanRequest.objects.exists()
    assert not Event.objects.filter(kind="run.recovered").exists()


def test_a_run_that_waits_for_a_person_beside_a_step_ends_with_that_step(otto, shop, start_worker) -> None:
    worker = start_worker()
    run = start_run(otto, "asking", 1)
    until(lambda: shop.charging and HumanRequest.objects.filter(run=run).exists())
    end = stopping(worker, drain=60.0)
    shop.let_go.set()
    end.join(60)
    assert not end.is_alive()
    assert shop.charging == [1]
    assert not Claim.objects.exists()


@pytest.mark.parametrize("again", [True, False], ids=["asked again", "time is up"])
def test_what_takes_longer_is_cut_off(otto, shop, start_worker, again: bool) -> None:
    worker = start_worker()
    run = start_run(otto, "shop", 1)
    until(lambda: shop.charging)
    end = stopping(worker, drain=60.0 if again else 0.1)
    if again:
        worker.stop(60.0)
    end.join(60)
    assert phase_of(run) == "ready"
    assert not Claim.objects.exists()


def test_a_plain_function_holds_the_worker_no_longer_than_that(otto, serve, start_worker) -> None:
    let_go, entered = threading.Event(), threading.Event()

    def blocks(message: int) -> int:
        entered.set()
        let_go.wait(60)
        return message

    serve(flow(blocks, name="plain"))
    worker = start_worker()
    start_run(otto, "plain", 1)
    assert entered.wait(60)
    began = time.monotonic()
    worker.stop(60.0, drain=0.1)
    let_go.set()
    assert time.monotonic() - began < 30
    assert not worker.running

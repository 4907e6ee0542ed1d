"""A worker that is asked to stop lets running steps end, and begins nothing more."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from checkpoints.models import Claim, Event, HumanRequest, Run
from tests.worker.conftest import phase_of, until
from wfdash.actions.runs.lifecycle import start_run
from wfdash.worker.embedded import EmbeddedWorker
from wfdash.workflow import Approval, Context, Workflow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]
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
    let_go, entered, workflow = threading.Event(), threading.Event(), Workflow("plain")

    @workflow.step(start=True)
    def blocks(message: int) -> int:
        entered.set()
        let_go.wait(60)
        return message

    serve(workflow)
    worker = start_worker()
    start_run(otto, "plain", 1)
    assert entered.wait(60)
    began = time.monotonic()
    worker.stop(60.0, drain=0.1)
    let_go.set()
    assert time.monotonic() - began < 30
    assert not worker.running

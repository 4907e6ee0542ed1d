"""A run that is left keeps its claim until its functions have returned; a claim that was lost track of is no claim."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from checkpoints import claims
from checkpoints.errors import Conflict
from checkpoints.file import FileStorage
from checkpoints.ids import RunId, new_run_id
from checkpoints.manager import CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import Claim, Commit
from tests.conformance.worlds import AnyWorld
from tests.workflow.world import failed, finished, flow, handed_over
from wfdash.workflow import Context, Failed, Waiting, Workflow
from wfdash.workflow.runtime import invoke
from wfdash.workflow.runtime.invoke import still_running


class Bank:
    """A plain function that takes its time, and what it did."""

    def __init__(self) -> None:
        self.ledger: list[str] = []
        self.begun, self.may_end = threading.Event(), threading.Event()

    def charge(self, amount: int) -> int:
        self.ledger.append("begins")
        self.begun.set()
        assert self.may_end.wait(60)
        self.ledger.append("ends")
        return amount

    async def begins(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 60)

    async def ends(self, run: str) -> None:
        self.may_end.set()
        async with asyncio.timeout(60):
            while still_running(run):
                await asyncio.sleep(0.01)


@pytest.fixture
def bank() -> Iterator[Bank]:
    """Let no thread outlive its test."""
    bank = Bank()
    yield bank
    bank.may_end.set()


def charging(bank: Bank, **options: Any) -> Workflow:
    async def pay(n: int, ctx: Context) -> int:
        return await ctx.call(bank.charge, n, **options)

    return flow(pay)


async def left(wf: Workflow, bank: Bank, storage: Any, run: RunId) -> None:
    """Run it, and cancel that while its function runs."""
    task = asyncio.create_task(wf.run(1, storage=storage, run_id=run))
    await bank.begins()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("managed", [False, True])
async def test_a_cancelled_run_is_no_one_elses_while_its_function_runs(world: AnyWorld, bank: Bank, managed: bool):
    wf, run = charging(bank, once=True), new_run_id()
    storage: Any = CheckpointManager(world.storage) if managed else world.storage
    await left(wf, bank, storage, run)
    assert await world.storage.claim(run, worker="a worker", ttl=5) is None
    with pytest.raises(Conflict, match="still runs: charge") as caught:
        await wf.run(storage=storage, run_id=run)
    assert caught.value.facts["running"] == ("charge",)
    first = await world.storage.get_latest(run)
    assert first is not None
    with pytest.raises(Conflict, match="still runs: charge"):
        await CheckpointManager(world.storage).restore(run, first.id)
    await bank.ends(run)
    waiting = await wf.run(storage=storage, run_id=run)
    assert isinstance(waiting, Waiting)
    assert "still ran" not in waiting.request.card["body"]
    assert bank.ledger == ["begins", "ends"]


async def test_a_call_that_may_be_repeated_is_not_begun_beside_itself(world: AnyWorld, bank: Bank):
    wf, run = charging(bank), new_run_id()
    await left(wf, bank, world.storage, run)
    with pytest.raises(Conflict, match="still runs"):
        await wf.run(storage=world.storage, run_id=run)
    await bank.ends(run)
    assert finished(await wf.run(storage=world.storage, run_id=run)) == 1
    assert bank.ledger == ["begins", "ends", "begins", "ends"]


async def test_the_claim_is_given_back_when_the_function_returns(world: AnyWorld, bank: Bank):
    wf, run = charging(bank), new_run_id()
    await left(wf, bank, world.storage, run)
    await bank.ends(run)
    head = await world.storage.get_latest(run)
    assert head is not None
    async with asyncio.timeout(60):
        while True:
            with suppress(Conflict):
                await world.storage.take(run, worker="elsewhere", ttl=5, head=head.id)
                break
            await asyncio.sleep(0.02)


async def test_a_run_that_failed_by_its_time_limit_is_kept_while_its_function_runs(world: AnyWorld, bank: Bank):
    wf, run = Workflow("limited"), new_run_id()
    wf.step(start=True, timeout=0.2)(bank.charge)
    assert "StepTimeout" in failed(await wf.run(1, storage=world.storage, run_id=run))
    with pytest.raises(Conflict, match="still runs: charge"):
        await wf.run(storage=world.storage, run_id=run)
    await bank.ends(run)
    assert finished(await wf.run(storage=world.storage, run_id=run)) == 1
    assert bank.ledger == ["begins", "ends", "begins", "ends"]


async def test_a_sibling_in_a_task_group_that_fails_doubles_nothing(bank: Bank):
    wf, run, storage = charging(bank), new_run_id(), MemoryStorage()

    async def fail() -> None:
        await bank.begins()
        raise ValueError("broken")

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(wf.run(1, storage=storage, run_id=run))
            group.create_task(fail())
    with pytest.raises(Conflict, match="still runs: charge"):
        await wf.run(storage=storage, run_id=run)
    await bank.ends(run)
    assert finished(await wf.run(storage=storage, run_id=run)) == 1


async def test_a_coroutine_that_does_not_let_go_keeps_the_claim_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(invoke, "LEAVE", 0.05)
    wf, run, storage = Workflow("stubborn"), new_run_id(), MemoryStorage()
    begun, may_end = asyncio.Event(), asyncio.Event()

    @wf.step(start=True)
    async def stubborn(ctx: Context) -> int:
        begun.set()
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()
        return 1

    task = asyncio.create_task(wf.run(None, storage=storage, run_id=run))
    await begun.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    with pytest.raises(Conflict, match="still runs: step stubborn"):
        await wf.run(storage=storage, run_id=run)
    may_end.set()
    async with asyncio.timeout(60):
        while still_running(run):
            await asyncio.sleep(0)
    assert finished(await wf.run(storage=storage, run_id=run)) == 1


def test_a_function_that_outlives_its_event_loop_keeps_the_claim_and_gives_it_back(bank: Bank, tmp_path: Path):
    wf, run, storage = charging(bank), new_run_id(), FileStorage(tmp_path / "runs.sqlite3")
    storage.renewer.every = 0.05
    asyncio.run(left(wf, bank, storage, run))

    async def refused() -> None:
        with pytest.raises(Conflict, match="still runs: charge"):
            await wf.run(storage=storage, run_id=run)
        bank.may_end.set()
        async with asyncio.timeout(60):
            while storage.renewer._held:
                await asyncio.sleep(0.01)
        assert finished(await wf.run(storage=storage, run_id=run)) == 1
        await storage.aclose()

    asyncio.run(refused())


async def test_a_storage_that_was_closed_since_still_says_what_runs(bank: Bank, tmp_path: Path):
    wf, run = charging(bank), new_run_id()
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        await left(wf, bank, storage, run)
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        with pytest.raises(Conflict, match="still runs: charge"):
            await wf.run(storage=storage, run_id=run)
        await bank.ends(run)
        assert finished(await wf.run(storage=storage, run_id=run)) == 1


class OwnClaims(MemoryStorage):
    """A storage with claims and nothing that renews them from a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.renewer = None  # type: ignore[assignment]

    async def aclose(self) -> None:
        """Keep the data."""


async def test_a_storage_without_a_renewing_thread_keeps_the_claim_from_the_loop(bank: Bank):
    wf, run, storage = charging(bank), new_run_id(), OwnClaims()
    await left(wf, bank, storage, run)
    with pytest.raises(Conflict, match="still runs: charge"):
        await wf.run(storage=storage, run_id=run)
    await bank.ends(run)
    assert finished(await wf.run(storage=storage, run_id=run)) == 1


async def test_without_claims_the_card_says_what_still_runs(bank: Bank):
    wf, kept = charging(bank, once=True), []

    class Keeps:
        async def save(self, checkpoint: Any) -> None:
            kept.append(checkpoint)

    await left(wf, bank, Keeps(), new_run_id())
    waiting = await wf.run(checkpoint=handed_over(kept[-1]))
    assert isinstance(waiting, Waiting)
    assert "functions of the run still ran: charge" in waiting.request.card["body"]
    bank.may_end.set()


class Faulty(MemoryStorage):
    """Fails after a write was stored, as a connection that is cut off behind the COMMIT."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: set[str] = set()

    def _fail(self, name: str) -> None:
        if name in self.fails:
            self.fails.discard(name)
            raise OSError("cut off")

    async def take(self, *args: Any, **options: Any) -> Claim:
        claim = await super().take(*args, **options)
        self._fail("take")
        return claim

    async def begin(self, *args: Any, **options: Any) -> Claim:
        claim = await super().begin(*args, **options)
        self._fail("begin")
        return claim

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        if commit.restores:
            self._fail("restore")
        return await super().commit(commit, claim=claim)

    async def release(self, claim: Claim) -> None:
        self._fail("release")
        await super().release(claim)


def counting() -> Workflow:
    async def count(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n + 1

    return flow(count)


async def test_a_claim_whose_reply_was_lost_is_not_waited_for():
    wf, storage, run = counting(), Faulty(), new_run_id()
    storage.fails = {"begin"}
    with pytest.raises(OSError, match="cut off"):
        await wf.run(1, storage=storage, run_id=run)
    storage.fails = {"take"}
    with pytest.raises(OSError, match="cut off"):
        await wf.run(storage=storage, run_id=run)
    assert finished(await wf.run(storage=storage, run_id=run)) == 2


@pytest.mark.parametrize("fails", [{"restore"}, {"restore", "release"}, {"take"}])
async def test_a_restore_that_fails_leaves_no_claim(fails: set[str]):
    wf, storage, run = counting(), Faulty(), new_run_id()
    assert isinstance(await wf.run(-1, storage=storage, run_id=run), Failed)
    first = (await storage.list_checkpoints(run))[-1].id
    storage.fails = set(fails)
    with pytest.raises(OSError, match="cut off"):
        await CheckpointManager(storage).restore(run, first)
    head = await CheckpointManager(storage).restore(run, first)
    assert head.parent == first


async def test_a_claim_that_could_not_be_given_back_is_taken_at_once(bank: Bank):
    storage, run, wf = Faulty(), new_run_id(), Workflow("holds")
    begun = asyncio.Event()

    @wf.step(start=True)
    async def hold(n: int) -> int:
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(60)
        return n

    task = asyncio.create_task(wf.run(1, storage=storage, run_id=run))
    await begun.wait()
    storage.fails = {"release"}
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert finished(await wf.run(storage=storage, run_id=run)) == 1


async def test_only_its_own_claim_is_dropped_when_one_was_lost_track_of():
    wf, storage, run, other = counting(), Faulty(), new_run_id(), new_run_id()
    held, begun = asyncio.Event(), asyncio.Event()

    async def wait(n: int) -> int:
        begun.set()
        await held.wait()
        return n

    driven = asyncio.create_task(flow(wait).run(7, storage=storage, run_id=other))
    await begun.wait()
    storage.fails = {"begin"}
    with pytest.raises(OSError, match="cut off"):
        await wf.run(1, storage=storage, run_id=run)
    assert finished(await wf.run(storage=storage, run_id=run)) == 2
    held.set()
    assert finished(await driven) == 7


def test_no_name_of_a_claim_begins_with_another():
    names = [claims.new_holder() for _ in range(30)]
    assert not [one for one in names for other in names if one != other and other.startswith(one)]

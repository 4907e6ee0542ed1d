from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from checkpoints import claims as claiming
from checkpoints.claims import ClaimRenewer
from checkpoints.conformance.worlds import checkpoint
from checkpoints.errors import ClaimLost
from checkpoints.ids import new_run_id
from checkpoints.memory import MemoryStorage
from checkpoints.records import Claim


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def renewer(storage) -> Iterator[ClaimRenewer]:
    made = ClaimRenewer(storage, ttl=30, every=0.1)
    yield made
    made.close()


async def claim_of(storage: MemoryStorage, ttl: float = 30) -> Claim:
    run = new_run_id()
    first = checkpoint(run)
    await storage.save(first)
    return await storage.take(run, worker="w", ttl=ttl, head=first.id)


async def test_a_loop_that_is_blocked_has_its_claims_renewed_again_and_again(storage, renewer) -> None:
    claims = [await claim_of(storage) for _ in range(20)]
    for claim in claims:
        renewer.hold(claim, pytest.fail)
    for _ in range(3):
        before = {token: held.good_until for token, held in renewer._held.items()}
        assert len(before) == len(claims)
        while any(renewer._held[token].good_until <= until for token, until in before.items()):
            time.sleep(0.01)  # noqa: ASYNC251 (the point of it: the loop does not run)
    assert not await storage.renew_many(claims, ttl=1)


async def test_anyone_who_lost_the_claim_is_cancelled_and_told(storage, renewer) -> None:
    claim = await claim_of(storage)
    with pytest.raises(ClaimLost):
        async with renewer.holding(claim):
            await storage.release(claim)
            renewer.renew_now()
            await asyncio.sleep(20)


async def test_a_cancellation_from_elsewhere_stays_one(storage, renewer) -> None:
    claim = await claim_of(storage)

    async def drive() -> None:
        async with renewer.holding(claim):
            await asyncio.sleep(20)

    task = asyncio.create_task(drive())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_after_a_sleep_of_the_machine_a_renewal_decides_who_has_the_run(storage, renewer, monkeypatch) -> None:
    kept, lost = await claim_of(storage), await claim_of(storage)
    renewer.every = 60
    for claim in (kept, lost):
        renewer.hold(claim, lambda: None)
        assert renewer.is_held(claim)
    real = claiming.boottime
    monkeypatch.setattr(claiming, "boottime", lambda: real() + 3600)
    assert not renewer.is_held(kept)
    await storage.release(lost)
    await storage.renew(kept, ttl=60)
    await renewer.confirm(kept)
    with pytest.raises(ClaimLost):
        await renewer.confirm(lost)


async def test_an_outage_is_logged_once_and_renewals_go_on_after_it(storage, renewer, monkeypatch, caplog) -> None:
    claim, tries = await claim_of(storage, ttl=30), threading.Semaphore(0)
    whole = storage.renew_many

    async def away(claims, *, ttl):
        tries.release()
        raise OSError("the database is away")

    monkeypatch.setattr(storage, "renew_many", away)
    renewer.hold(claim, pytest.fail)
    for _ in range(3):
        assert await asyncio.to_thread(tries.acquire, timeout=60)
    monkeypatch.setattr(storage, "renew_many", whole)
    held = renewer._held[claim.token]
    before = held.good_until
    while held.good_until <= before:
        await asyncio.sleep(0.02)
    assert caplog.text.count("Could not renew 1 claims") == 1


async def test_a_renewal_that_waits_for_the_runs_own_long_commit_is_no_outage(
    storage, renewer, monkeypatch, caplog
) -> None:
    claim, renewer.every = await claim_of(storage, ttl=30), 60

    async def busy(claims, *, ttl):
        raise TimeoutError

    monkeypatch.setattr(storage, "renew_many", busy)
    renewer.hold(claim, pytest.fail)
    with renewer.committing(claim):
        await renewer._renew()
        assert caplog.text == ""
        renewer._held[claim.token].good_until = 0.0
        await renewer._renew()
        assert "Could not renew 1 claims" in caplog.text
    caplog.clear()
    renewer._failing = False
    await renewer._renew()
    assert "Could not renew 1 claims" in caplog.text


async def test_a_storage_without_the_common_statement_is_renewed_claim_by_claim(renewer) -> None:
    class Plain:
        def __init__(self) -> None:
            self.renewed: list[str] = []

        async def renew(self, claim: Claim, *, ttl: float) -> Claim:
            if claim.worker == "gone":
                raise ClaimLost(run=claim.run)
            self.renewed.append(claim.worker)
            return claim

    storage, memory = Plain(), MemoryStorage()
    claims = [(await claim_of(memory)).model_copy(update={"worker": name}) for name in ("a", "gone", "b")]
    assert await claiming.renew_many(storage, claims, ttl=1) == {claims[1].token}  # type: ignore[arg-type]
    assert storage.renewed == ["a", "b"]


async def test_a_thread_that_died_is_replaced_before_anyone_waits_for_it(storage, renewer) -> None:
    claim = await claim_of(storage)
    renewer.hold(claim, pytest.fail)
    dead = threading.Thread(target=int)
    dead.start()
    dead.join()
    renewer._closing = True
    renewer.renew_now()
    first, renewer._thread = renewer._thread, dead
    first.join()
    renewer._held[claim.token].good_until = 0
    await asyncio.wait_for(renewer.confirm(claim), 60)


async def test_a_process_that_was_forked_renews_none_of_its_parents_claims(storage, renewer) -> None:
    renewer.hold(await claim_of(storage), pytest.fail)
    first, renewer._process = renewer._thread, -1
    own = await claim_of(storage)
    renewer.hold(own, pytest.fail)
    assert list(renewer._held) == [own.token]
    assert renewer._thread is not first
    # What this test left behind by saying so: the thread of the supposed parent.
    renewer._closing = True
    assert first is not None
    first.join()


async def test_a_renewal_between_the_commit_that_gives_a_claim_back_and_its_return_reports_no_loss(
    storage, renewer
) -> None:
    claim, renewer.every = await claim_of(storage), 60
    renewer.hold(claim, pytest.fail)
    with renewer.committing(claim, ends=True):
        await storage.release(claim)
        await renewer._renew()
    await renewer._renew()
    assert not renewer.is_held(claim)


async def test_a_claim_that_could_not_be_given_back_is_kept_and_its_loss_reported(storage, renewer) -> None:
    claim, renewer.every, losses = await claim_of(storage), 60, list[str]()
    renewer.hold(claim, lambda: losses.append("lost"))
    with pytest.raises(OSError, match="away"), renewer.committing(claim, ends=True):
        raise OSError("the database is away")
    assert renewer.is_held(claim)
    await storage.release(claim)
    await renewer._renew()
    assert losses == ["lost"]
    assert not renewer.is_held(claim)

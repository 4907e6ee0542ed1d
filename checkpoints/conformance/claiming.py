"""What every ``Claims`` promises: one driver per run, and none whose time has passed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from checkpoints.conformance.samples import (
    asking,
    begun,
    checkpoint,
    checks_in,
    claimed,
    is_due,
    refused,
    until,
)
from checkpoints.conformance.worlds import Peopled
from checkpoints.errors import ClaimLost
from checkpoints.ids import RequestKey, RunId, new_run_id
from checkpoints.records import Claim, Commit, EventDraft, Phase, Standing
from checkpoints.storage import Claims

EVENT = (EventDraft(kind="custom"),)


async def taken_over(world: Peopled, run: RunId) -> Claim:
    """Wait until the earlier claim has expired and return the one that follows it."""
    claim: Claim = await until(lambda: world.storage.claim(run, worker="second", ttl=30))
    return claim


async def it_has_every_method(world: Peopled) -> None:
    assert isinstance(world.storage, Claims)


async def a_claimed_run_is_neither_due_nor_claimable(world: Peopled) -> None:
    run = await begun(world)
    assert await is_due(world, run)
    claim = await claimed(world, run)
    assert (claim.run, claim.worker, claim.epoch, claim.recovered, claim.attempts) == (run, "test", 1, False, 0)
    assert claim.expires > datetime.now(UTC)
    assert not await is_due(world, run)
    assert await world.storage.claim(run, worker="other", ttl=5) is None


async def an_unknown_run_cannot_be_claimed(world: Peopled) -> None:
    assert await world.storage.claim(new_run_id(), worker="w", ttl=5) is None


async def only_a_due_run_can_be_claimed(world: Peopled) -> None:
    for phase in (Phase.WAITING, Phase.PAUSED, Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED):
        run = new_run_id()
        await world.storage.commit(Commit(run=run, standing=Standing(phase=phase)))
        assert await world.storage.claim(run, worker="w", ttl=5) is None


async def of_many_claimers_at_once_one_wins(world: Peopled) -> None:
    for _ in range(10):
        run = await begun(world)
        claims = await asyncio.gather(*(world.storage.claim(run, worker=str(i), ttl=30) for i in range(16)))
        assert sum(claim is not None for claim in claims) == 1


async def a_released_run_is_as_due_as_before(world: Peopled) -> None:
    run = await begun(world)
    claim = await claimed(world, run)
    await world.storage.release(claim)
    await world.storage.release(claim)
    assert await is_due(world, run)
    again = await claimed(world, run)
    assert (again.epoch, again.recovered) == (2, False)
    with refused(ClaimLost):
        await world.storage.renew(claim, ttl=5)


async def a_woken_run_that_is_released_stays_due(world: Peopled) -> None:
    run = new_run_id()
    past = datetime.now(UTC) - timedelta(seconds=1)
    await world.storage.commit(Commit(run=run, standing=Standing(phase=Phase.SLEEPING, wake_at=past)))
    await world.storage.release(await claimed(world, run))
    assert await is_due(world, run)


async def an_expired_claim_writes_nothing_more(world: Peopled) -> None:
    run = await begun(world)
    old = await claimed(world, run, ttl=0.03)
    new = await taken_over(world, run)
    assert (new.epoch, new.recovered, new.attempts) == (2, True, 1)
    for stale in (
        Commit(run=run, events=EVENT),
        asking(run, "k"),
        Commit(run=run, standing=Standing(phase=Phase.FAILED)),
    ):
        with refused(ClaimLost):
            await world.storage.commit(stale, claim=old)
    with refused(ClaimLost):
        await world.storage.renew(old, ttl=30)
    await world.storage.release(old)
    assert len(await world.storage.read_events(run)) == 1
    assert await world.storage.get_latest(run) is None
    assert await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run), events=EVENT), claim=new) == 2


async def an_expired_claim_is_lost_even_if_nobody_took_over(world: Peopled) -> None:
    run = await begun(world)
    claim = await claimed(world, run, ttl=0.03)
    await until(lambda: is_due(world, run))
    with refused(ClaimLost):
        await world.storage.commit(Commit(run=run, events=EVENT), claim=claim)
    with refused(ClaimLost):
        await world.storage.renew(claim, ttl=30)
    assert len(await world.storage.read_events(run)) == 1


async def renewing_and_committing_extend_a_claim(world: Peopled) -> None:
    run = await begun(world)
    claim = await claimed(world, run, ttl=5)
    renewed = await world.storage.renew(claim, ttl=60)
    assert renewed.expires > claim.expires + timedelta(seconds=30)
    assert (renewed.token, renewed.epoch, renewed.ttl) == (claim.token, claim.epoch, 60)
    short = await world.storage.renew(renewed, ttl=0.4)
    end = asyncio.get_running_loop().time() + 0.8
    while asyncio.get_running_loop().time() < end:
        await world.storage.commit(Commit(run=run, events=EVENT), claim=short)
        await asyncio.sleep(0.02)
    assert not await is_due(world, run)


async def takeovers_are_counted_until_there_is_a_checkpoint(world: Peopled) -> None:
    run = await begun(world)
    await claimed(world, run, ttl=0.01)
    for attempts in (1, 2, 3):
        claim = await until(lambda: world.storage.claim(run, worker="w", ttl=0.5))
        assert claim is not None
        assert claim.attempts == attempts
        await world.storage.commit(Commit(run=run, events=EVENT), claim=claim)
        await world.storage.renew(claim, ttl=0.01)
    claim = await taken_over(world, run)
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run)), claim=claim)
    await world.storage.renew(claim, ttl=0.01)
    assert (await taken_over(world, run)).attempts == 1


async def a_cancelled_run_cannot_be_moved_by_its_worker(world: Peopled) -> None:
    run = await begun(world)
    claim = await claimed(world, run)
    await world.cancel(run)
    with refused(ClaimLost):
        await world.storage.commit(asking(run, "k"), claim=claim)
    assert await world.phase(run) is Phase.CANCELLED
    assert await world.storage.claim(run, worker="w", ttl=5) is None


async def a_claim_writes_for_its_own_run_only(world: Peopled) -> None:
    mine, yours = await begun(world), await begun(world)
    claim = await claimed(world, mine)
    await claimed(world, yours)
    with refused(ClaimLost):
        await world.storage.commit(Commit(run=yours, events=EVENT), claim=claim)
    assert len(await world.storage.read_events(yours)) == 1


async def a_run_goes_on_after_its_worker_died(world: Peopled) -> None:
    run = await begun(world)
    first = await claimed(world, run)
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run), events=EVENT), claim=first)
    await world.storage.renew(first, ttl=0.05)
    second = await taken_over(world, run)
    latest = await world.storage.get_latest(run)
    assert latest is not None
    restored = checkpoint(run, 2, parent=latest.id, reason="restore", body=latest.body)
    parked = asking(run, "k").model_copy(update={"checkpoint": restored})
    await world.storage.commit(parked, claim=second)
    await world.answer(run, "k", True)
    third = await claimed(world, run)
    assert (third.epoch, third.recovered) == (3, False)
    end = Commit(
        run=run, checkpoint=checkpoint(run, 3), closed=(RequestKey("k"),), standing=Standing(phase="completed")
    )
    await world.storage.commit(end, claim=third)
    assert [c.n for c in await world.storage.list_checkpoints(run)] == [3, 2, 1]
    assert await world.phase(run) is Phase.COMPLETED


CLAIMS = checks_in(globals())

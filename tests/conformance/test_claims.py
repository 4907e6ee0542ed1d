"""What every ``Claims`` promises: one driver per run, and none whose time has passed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from checkpoints.errors import ClaimLost, NotFound
from checkpoints.ids import RequestKey, RunId, new_run_id
from checkpoints.records import Claim, Commit, EventDraft, Phase, Standing
from tests.conformance.worlds import DatabaseWorld, World, asking, checkpoint, claimed, started, until

EVENT = (EventDraft(kind="custom"),)


async def begun(world: World) -> RunId:
    """Return a run that is known and ready."""
    run = new_run_id()
    await world.storage.commit(started(run))
    return run


async def taken_over(world: World, run: RunId) -> Claim:
    """Wait until the earlier claim has expired and return the one that follows it."""
    claim = await until(lambda: world.storage.claim(run, worker="second", ttl=30))
    assert claim is not None
    return claim


async def test_a_claimed_run_is_neither_due_nor_claimable(world: World) -> None:
    run = await begun(world)
    assert run in await world.storage.due(limit=10_000)
    claim = await claimed(world, run)
    assert (claim.run, claim.worker, claim.epoch, claim.recovered, claim.attempts) == (run, "test", 1, False, 0)
    assert claim.expires > datetime.now(UTC)
    assert run not in await world.storage.due(limit=10_000)
    assert await world.storage.claim(run, worker="other", ttl=5) is None


async def test_an_unknown_run_cannot_be_claimed(world: World) -> None:
    assert await world.storage.claim(new_run_id(), worker="w", ttl=5) is None


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.PAUSED, Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED])
async def test_only_a_due_run_can_be_claimed(world: World, phase: Phase) -> None:
    run = new_run_id()
    await world.storage.commit(Commit(run=run, standing=Standing(phase=phase)))
    assert await world.storage.claim(run, worker="w", ttl=5) is None


async def test_of_many_claimers_at_once_one_wins(world: World) -> None:
    for _ in range(10):
        run = await begun(world)
        claims = await asyncio.gather(*(world.storage.claim(run, worker=str(i), ttl=30) for i in range(16)))
        assert sum(claim is not None for claim in claims) == 1


async def test_a_released_run_is_as_due_as_before(world: World) -> None:
    run = await begun(world)
    claim = await claimed(world, run)
    await world.storage.release(claim)
    await world.storage.release(claim)
    assert run in await world.storage.due(limit=10_000)
    again = await claimed(world, run)
    assert (again.epoch, again.recovered) == (2, False)
    with pytest.raises(ClaimLost):
        await world.storage.renew(claim, ttl=5)


async def test_a_woken_run_that_is_released_stays_due(world: World) -> None:
    run = new_run_id()
    past = datetime.now(UTC) - timedelta(seconds=1)
    await world.storage.commit(Commit(run=run, standing=Standing(phase=Phase.SLEEPING, wake_at=past)))
    await world.storage.release(await claimed(world, run))
    assert run in await world.storage.due(limit=10_000)


async def test_an_expired_claim_writes_nothing_more(world: World) -> None:
    run = await begun(world)
    old = await claimed(world, run, ttl=0.03)
    new = await taken_over(world, run)
    assert (new.epoch, new.recovered, new.attempts) == (2, True, 1)
    for stale in (
        Commit(run=run, events=EVENT),
        asking(run, "k"),
        Commit(run=run, standing=Standing(phase=Phase.FAILED)),
    ):
        with pytest.raises(ClaimLost):
            await world.storage.commit(stale, claim=old)
    with pytest.raises(ClaimLost):
        await world.storage.renew(old, ttl=30)
    await world.storage.release(old)
    assert len(await world.storage.read_events(run)) == 1
    assert await world.storage.get_latest(run) is None
    assert await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run), events=EVENT), claim=new) == 2


async def test_an_expired_claim_is_lost_even_if_nobody_took_over(world: World) -> None:
    run = await begun(world)
    claim = await claimed(world, run, ttl=0.03)
    await until(lambda: due(world, run))
    with pytest.raises(ClaimLost):
        await world.storage.commit(Commit(run=run, events=EVENT), claim=claim)
    with pytest.raises(ClaimLost):
        await world.storage.renew(claim, ttl=30)
    assert len(await world.storage.read_events(run)) == 1


async def due(world: World, run: RunId) -> bool:
    """Say whether the run should be driven now."""
    return run in await world.storage.due(limit=10_000)


async def test_renewing_and_committing_extend_a_claim(world: World) -> None:
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
    assert not await due(world, run)


async def test_takeovers_are_counted_until_there_is_a_checkpoint(world: World) -> None:
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


async def test_a_cancelled_run_cannot_be_moved_by_its_worker(world: World) -> None:
    run = await begun(world)
    claim = await claimed(world, run)
    await world.cancel(run)
    with pytest.raises(ClaimLost):
        await world.storage.commit(asking(run, "k"), claim=claim)
    assert await world.phase(run) is Phase.CANCELLED
    assert await world.storage.claim(run, worker="w", ttl=5) is None


async def test_a_claim_writes_for_its_own_run_only(world: World) -> None:
    mine, yours = await begun(world), await begun(world)
    claim = await claimed(world, mine)
    await claimed(world, yours)
    with pytest.raises(ClaimLost):
        await world.storage.commit(Commit(run=yours, events=EVENT), claim=claim)
    assert len(await world.storage.read_events(yours)) == 1


async def test_a_run_goes_on_after_its_worker_died(world: World) -> None:
    run = await begun(world)
    first = await claimed(world, run, ttl=0.05)
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run), events=EVENT), claim=first)
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


async def test_claims_of_workers_known_to_be_gone_can_be_ended(database: DatabaseWorld) -> None:
    run, other = await begun(database), await begun(database)
    prefix = str(new_run_id())
    gone = await database.storage.claim(run, worker=f"{prefix}:1", ttl=60)
    stays = await database.storage.claim(other, worker="elsewhere:1", ttl=60)
    assert gone is not None
    assert stays is not None
    await database.storage.expire_claims(worker_prefix=f"{prefix}:")
    with pytest.raises(ClaimLost):
        await database.storage.renew(gone, ttl=60)
    await database.storage.renew(stays, ttl=60)
    assert (await claimed(database, run)).recovered


async def test_a_worker_can_read_what_driving_a_run_needs(database: DatabaseWorld) -> None:
    run = new_run_id()
    await database.storage.save(checkpoint(run, 4))
    facts = await database.storage.read_run(run)
    assert (facts.run, facts.workflow, facts.version, facts.n, facts.attempts) == (run, "expense", "v1", 4, 0)
    with pytest.raises(NotFound):
        await database.storage.read_run(new_run_id())

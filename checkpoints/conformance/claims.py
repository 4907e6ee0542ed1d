"""What every ``Claims`` promises: one driver per run, and none whose time has passed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

from checkpoints.conformance.worlds import (
    MANY,
    JournalWorld,
    asking,
    begun,
    checkpoint,
    checks_in,
    claimed,
    is_due,
    question,
    refused,
    until,
)
from checkpoints.errors import ClaimLost, Conflict, NotFound
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, new_run_id
from checkpoints.records import Claim, Commit, Phase, Standing
from checkpoints.storage import Claims

EVENT = (EventKind.CUSTOM.draft(),)


async def taken_over(world: JournalWorld, run: RunId, worker: str = "second") -> Claim:
    """Wait until the earlier claim has expired and return the one that follows it."""
    claim: Claim = await until(lambda: world.storage.claim(run, worker=worker, ttl=30))
    return claim


async def it_has_every_method(world: JournalWorld) -> None:
    assert isinstance(world.storage, Claims)


async def a_claimed_run_is_neither_due_nor_claimable(world: JournalWorld) -> None:
    run = await begun(world)
    assert await is_due(world, run)
    claim = await claimed(world, run)
    assert (claim.run, claim.worker, claim.epoch, claim.recovered, claim.attempts) == (run, "test", 1, False, 0)
    assert claim.expires > datetime.now(UTC)
    assert not await is_due(world, run)
    assert await world.storage.claim(run, worker="other", ttl=5) is None


async def an_unknown_run_cannot_be_claimed(world: JournalWorld) -> None:
    assert await world.storage.claim(new_run_id(), worker="w", ttl=5) is None


async def only_a_due_run_can_be_claimed(world: JournalWorld) -> None:
    for phase in (Phase.WAITING, Phase.PAUSED, Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED):
        run = new_run_id()
        await world.storage.commit(Commit(run=run, standing=Standing(phase=phase)))
        assert await world.storage.claim(run, worker="w", ttl=5) is None


async def of_many_claimers_at_once_one_wins(world: JournalWorld) -> None:
    for _ in range(10):
        run = await begun(world)
        claims = await asyncio.gather(*(world.storage.claim(run, worker=str(i), ttl=30) for i in range(16)))
        assert sum(claim is not None for claim in claims) == 1


async def a_released_run_is_as_due_as_before(world: JournalWorld) -> None:
    run = await begun(world)
    claim = await claimed(world, run)
    await world.storage.release(claim)
    await world.storage.release(claim)
    assert await is_due(world, run)
    again = await claimed(world, run)
    assert (again.epoch, again.recovered) == (2, False)
    with refused(ClaimLost):
        await world.storage.renew(claim, ttl=5)


async def a_woken_run_that_is_released_stays_due(world: JournalWorld) -> None:
    run = new_run_id()
    past = datetime.now(UTC) - timedelta(seconds=1)
    await world.storage.commit(Commit(run=run, standing=Standing(phase=Phase.SLEEPING, wake_at=past)))
    await world.storage.release(await claimed(world, run))
    assert await is_due(world, run)


async def an_expired_claim_writes_nothing_more(world: JournalWorld) -> None:
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


async def an_expired_claim_is_lost_even_without_a_takeover(world: JournalWorld) -> None:
    run = await begun(world)
    claim = await claimed(world, run, ttl=0.03)
    await until(lambda: is_due(world, run))
    with refused(ClaimLost):
        await world.storage.commit(Commit(run=run, events=EVENT), claim=claim)
    with refused(ClaimLost):
        await world.storage.renew(claim, ttl=30)
    assert len(await world.storage.read_events(run)) == 1


async def renewing_and_committing_extend_a_claim(world: JournalWorld) -> None:
    run = await begun(world)
    claim = await claimed(world, run, ttl=5)
    renewed = await world.storage.renew(claim, ttl=60)
    assert renewed.expires > claim.expires + timedelta(seconds=30)
    assert (renewed.token, renewed.epoch, renewed.ttl) == (claim.token, claim.epoch, 60)
    short = await world.storage.renew(renewed, ttl=1.5)
    end = asyncio.get_running_loop().time() + 2.0
    while asyncio.get_running_loop().time() < end:
        await world.storage.commit(Commit(run=run, events=EVENT), claim=short)
        await asyncio.sleep(0.05)
    assert not await is_due(world, run)


async def takeovers_are_counted_until_there_is_a_checkpoint(world: JournalWorld) -> None:
    run = await begun(world)
    claim = await claimed(world, run, ttl=0.01)
    for attempts in (1, 2):
        claim = await until(partial(world.storage.claim, run, worker=f"w{attempts}", ttl=30))
        assert claim is not None
        assert claim.attempts == attempts
        await world.storage.commit(Commit(run=run, events=EVENT), claim=claim)
        await world.storage.renew(claim, ttl=0.01)
    claim = await until(lambda: world.storage.claim(run, worker="w3", ttl=30))
    assert claim.attempts == 3
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run)), claim=claim)
    await world.storage.renew(claim, ttl=0.01)
    assert (await taken_over(world, run)).attempts == 1


async def a_worker_that_takes_its_own_run_again_has_not_died(world: JournalWorld) -> None:
    run = await begun(world)
    await world.storage.claim(run, worker="same", ttl=0.01)
    again: Claim = await until(lambda: world.storage.claim(run, worker="same", ttl=5))
    assert (again.recovered, again.attempts) == (True, 0)


async def a_run_that_was_taken_over_rests_before_it_is_again(world: JournalWorld) -> None:
    run = await begun(world)
    await claimed(world, run, ttl=0.01)
    await world.storage.renew(await taken_over(world, run), ttl=0.01)
    # Once more at once: most workers end for reasons of their own.
    await world.storage.renew(await taken_over(world, run, worker="another"), ttl=0.01)
    await asyncio.sleep(0.05)
    assert not await is_due(world, run)
    assert await world.storage.claim(run, worker="third", ttl=5) is None


async def a_cancelled_run_cannot_be_moved_by_its_worker(world: JournalWorld) -> None:
    run = await begun(world)
    claim = await claimed(world, run)
    await world.cancel(run)
    with refused(ClaimLost):
        await world.storage.commit(asking(run, "k"), claim=claim)
    assert await world.phase(run) is Phase.CANCELLED
    assert await world.storage.claim(run, worker="w", ttl=5) is None


async def a_claim_writes_for_its_own_run_only(world: JournalWorld) -> None:
    mine, yours = await begun(world), await begun(world)
    claim = await claimed(world, mine)
    await claimed(world, yours)
    with refused(ClaimLost):
        await world.storage.commit(Commit(run=yours, events=EVENT), claim=claim)
    assert len(await world.storage.read_events(yours)) == 1


async def a_run_continues_after_its_worker_died(world: JournalWorld) -> None:
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


async def a_run_can_be_taken_whatever_it_waits_for(world: JournalWorld) -> None:
    for phase in (Phase.READY, Phase.WAITING, Phase.SLEEPING, Phase.FAILED, Phase.COMPLETED, Phase.PAUSED):
        run = new_run_id()
        head = await _parked(world, run, phase)
        claim = await world.storage.take(run, worker="here", ttl=30, head=head)
        assert (claim.worker, claim.recovered, claim.epoch) == ("here", False, 1)
        assert await world.phase(run) is Phase.READY
        assert not await is_due(world, run)
        await world.storage.commit(Commit(run=run, standing=Standing(phase=Phase.WAITING)), claim=claim)


async def a_run_with_a_live_claim_cannot_be_taken(world: JournalWorld) -> None:
    run = await begun(world)
    first = checkpoint(run)
    await world.storage.commit(Commit(run=run, checkpoint=first))
    held = await world.storage.claim(run, worker="busy", ttl=30)
    assert held is not None
    with refused(Conflict, saying="busy"):
        await world.storage.take(run, worker="other", ttl=30, head=first.id)
    await world.storage.commit(Commit(run=run, events=EVENT), claim=held)
    await world.storage.renew(held, ttl=0.02)
    taken = await until(lambda: _tried(world, run, first.id))
    assert taken is not None
    assert (taken.recovered, taken.attempts) == (True, 1)


async def of_many_takers_at_once_one_wins(world: JournalWorld) -> None:
    for _ in range(5):
        run = new_run_id()
        head = await _parked(world, run)
        claims = await asyncio.gather(*(_tried(world, run, head) for _ in range(12)))
        assert sum(claim is not None for claim in claims) == 1


async def a_run_is_taken_from_its_newest_checkpoint_only(world: JournalWorld) -> None:
    run = await begun(world)
    first, second = checkpoint(run), checkpoint(run, 2)
    await world.storage.commit(Commit(run=run, checkpoint=first))
    await world.storage.commit(Commit(run=run, checkpoint=second))
    for other in (first.id, None):
        with refused(Conflict):
            await world.storage.take(run, worker="w", ttl=30, head=other)
    assert await is_due(world, run)
    assert (await world.storage.take(run, worker="w", ttl=30, head=second.id)).epoch == 1
    with refused(NotFound):
        await world.storage.take(new_run_id(), worker="w", ttl=30, head=None)


async def a_cancelled_run_is_taken_only_on_request(world: JournalWorld) -> None:
    run = new_run_id()
    head = await _parked(world, run)
    await world.cancel(run)
    with refused(Conflict, saying="cancelled"):
        await world.storage.take(run, worker="w", ttl=30, head=head)
    assert await world.phase(run) is Phase.CANCELLED
    await world.storage.take(run, worker="w", ttl=30, head=head, stopped=True)


async def a_run_may_begin_in_the_hands_of_its_driver(world: JournalWorld) -> None:
    run = new_run_id()
    head = checkpoint(run)
    claim = await world.storage.begin(Commit(run=run, checkpoint=head, events=EVENT), worker="here", ttl=30)
    assert (claim.run, claim.worker, claim.epoch, claim.recovered) == (run, "here", 1, False)
    assert not await is_due(world, run)
    assert await world.storage.claim(run, worker="other", ttl=30) is None
    assert await world.storage.commit(Commit(run=run, events=EVENT), claim=claim) == 2
    await world.storage.renew(claim, ttl=0.02)
    taken = await until(lambda: _tried(world, run, head.id))
    assert taken is not None
    assert taken.recovered


async def a_run_that_its_maker_drives_is_never_due_for_workers(world: JournalWorld) -> None:
    saved, driven, copy = new_run_id(), new_run_id(), new_run_id()
    first = checkpoint(saved)
    await world.storage.save(first)
    claim = await world.storage.begin(Commit(run=driven, checkpoint=checkpoint(driven)), worker="here", ttl=30)
    asked = checkpoint(driven, 2, requests=(question(),))
    waiting = Standing(phase=Phase.WAITING)
    await world.storage.commit(
        Commit(run=driven, checkpoint=asked, opened=asked.requests, standing=waiting), claim=claim
    )
    await world.answer(driven, "k", True)
    await world.storage.fork(saved, first.id, copy)
    due = await world.storage.due(limit=MANY)
    for run in (saved, driven, copy):
        assert run not in due
        assert await world.storage.claim(run, worker="a worker", ttl=5) is None
    assert await world.phase(driven) is Phase.READY
    again = await world.storage.take(driven, worker="here", ttl=0.01, head=asked.id)
    assert (again.run, again.recovered) == (driven, False)
    await asyncio.sleep(0.05)
    assert await world.storage.claim(driven, worker="a worker", ttl=5) is None
    await world.storage.commit(Commit(run=copy, standing=Standing(phase=Phase.READY)))
    assert await is_due(world, copy), "a commit without a claim leaves a run to workers by its standing"


async def a_run_begins_once(world: JournalWorld) -> None:
    run = new_run_id()
    begins = [Commit(run=run, checkpoint=checkpoint(run), events=EVENT) for _ in range(8)]
    outcomes = await asyncio.gather(
        *(world.storage.begin(commit, worker="w", ttl=30) for commit in begins), return_exceptions=True
    )
    assert sum(isinstance(outcome, Claim) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7
    assert len(await world.storage.read_events(run)) == 1


async def a_run_that_cannot_begin_leaves_nothing(world: JournalWorld) -> None:
    run = new_run_id()
    bad = EventKind.CUSTOM.draft(data=float("nan"))
    with refused(ValueError):
        await world.storage.begin(Commit(run=run, checkpoint=checkpoint(run), events=(bad,)), worker="w", ttl=30)
    with refused(NotFound):
        await world.storage.take(run, worker="w", ttl=30, head=None)


async def _parked(world: JournalWorld, run: RunId, phase: Phase = Phase.WAITING) -> CheckpointId:
    head = checkpoint(run, requests=(question(),))
    commit = Commit(run=run, checkpoint=head, opened=head.requests, standing=Standing(phase=phase))
    await world.storage.commit(commit)
    return head.id


async def _tried(world: JournalWorld, run: RunId, head: CheckpointId) -> Claim | None:
    try:
        claim: Claim = await world.storage.take(run, worker="w", ttl=30, head=head)
    except Conflict:
        return None
    return claim


CLAIMS = checks_in(globals())

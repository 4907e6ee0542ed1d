"""What every ``Claims`` promises: one driver per run, and none whose time has passed.

A batch (``claim_due``) has runs in their order, each for one worker, and none that is not due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
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
    commit,
    is_due,
    question,
    refused,
    until,
)
from checkpoints.errors import ClaimLost, Conflict, NotFound
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_run_id
from checkpoints.records import Claim, Commit, Phase, Standing
from checkpoints.storage import Claims, Serves

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
        await commit(world, run, standing=Standing(phase=phase))
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
    await commit(world, run, standing=Standing(phase=Phase.SLEEPING, wake_at=past))
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
    assert await commit(world, run, checkpoint=checkpoint(run), events=EVENT, claim=new) == 2


async def an_expired_claim_is_lost_even_without_a_takeover(world: JournalWorld) -> None:
    run = await begun(world)
    claim = await claimed(world, run, ttl=0.03)
    await until(lambda: is_due(world, run))
    with refused(ClaimLost):
        await commit(world, run, events=EVENT, claim=claim)
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
        await commit(world, run, events=EVENT, claim=short)
        await asyncio.sleep(0.05)
    assert not await is_due(world, run)


async def takeovers_are_counted_until_there_is_a_checkpoint(world: JournalWorld) -> None:
    run = await begun(world)
    claim = await claimed(world, run, ttl=0.01)
    for attempts in (1, 2):
        claim = await until(partial(world.storage.claim, run, worker=f"w{attempts}", ttl=30))
        assert claim is not None
        assert claim.attempts == attempts
        await commit(world, run, events=EVENT, claim=claim)
        await world.storage.renew(claim, ttl=0.01)
    claim = await until(lambda: world.storage.claim(run, worker="w3", ttl=30))
    assert claim.attempts == 3
    await commit(world, run, checkpoint=checkpoint(run), claim=claim)
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
        await commit(world, yours, events=EVENT, claim=claim)
    assert len(await world.storage.read_events(yours)) == 1


async def a_run_continues_after_its_worker_died(world: JournalWorld) -> None:
    run = await begun(world)
    first = await claimed(world, run)
    await commit(world, run, checkpoint=checkpoint(run), events=EVENT, claim=first)
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
        await commit(world, run, standing=Standing(phase=Phase.WAITING), claim=claim)


async def a_run_with_a_live_claim_cannot_be_taken(world: JournalWorld) -> None:
    run = await begun(world)
    first = checkpoint(run)
    await commit(world, run, checkpoint=first)
    held = await world.storage.claim(run, worker="busy", ttl=30)
    assert held is not None
    with refused(Conflict, saying="busy"):
        await world.storage.take(run, worker="other", ttl=30, head=first.id)
    await commit(world, run, events=EVENT, claim=held)
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
    await commit(world, run, checkpoint=first)
    await commit(world, run, checkpoint=second)
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
    assert await commit(world, run, events=EVENT, claim=claim) == 2
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
    await commit(world, driven, checkpoint=asked, opened=asked.requests, standing=waiting, claim=claim)
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
    await commit(world, copy, standing=Standing(phase=Phase.READY))
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


async def runs_are_claimed_in_the_order_in_which_they_became_ready(world: JournalWorld) -> None:
    await _empty(world)
    runs = [await _one_after_another(world) for _ in range(5)]
    await commit(world, runs[0], standing=Standing(phase=Phase.READY))
    expected = [*runs[1:], runs[0]]
    assert [run for run in await world.storage.due(limit=MANY) if run in runs] == expected
    claims = await _taken(world, 3)
    assert _runs_of(claims) == expected[:3]
    assert {(claim.worker, claim.epoch, claim.recovered, claim.attempts) for claim in claims} == {("test", 1, False, 0)}
    assert all(claim.expires > datetime.now(UTC) for claim in claims)
    assert _runs_of(await _taken(world, 2)) == expected[3:]
    assert not {*_runs_of(await _taken(world, MANY))} & {*runs}
    assert await _taken(world, 0) == []


async def an_answered_run_comes_first_and_one_that_its_time_woke_comes_last(world: JournalWorld) -> None:
    await _empty(world)
    past = datetime.now(UTC) - timedelta(minutes=1)
    asleep, asked = new_run_id(), new_run_id()
    await commit(world, asleep, standing=Standing(phase=Phase.SLEEPING, wake_at=past))
    await world.storage.commit(asking(asked, "k"))
    started = [await _one_after_another(world) for _ in range(2)]
    await world.answer(asked, "k", True)
    mine = [asked, *started, asleep]
    assert [run for run in _runs_of(await _taken(world, MANY)) if run in mine] == mine
    assert await world.phase(asleep) is Phase.READY


async def a_released_run_keeps_its_place(world: JournalWorld) -> None:
    await _empty(world)
    first, second = await _one_after_another(world), await _one_after_another(world)
    (claim,) = await _taken(world, 1)
    await world.storage.release(claim)
    assert _runs_of(await _taken(world, 2)) == [first, second]


async def claims_of_a_batch_are_fenced_like_any_other(world: JournalWorld) -> None:
    run = await begun(world)
    (old,) = await _taken(world, 1, run, ttl=0.02)
    await until(lambda: is_due(world, run))
    (new,) = await _taken(world, 1, run, worker="second")
    assert (new.epoch, new.recovered, new.attempts) == (2, True, 1)
    with refused(ClaimLost):
        await commit(world, run, events=EVENT, claim=old)
    await commit(world, run, events=EVENT, claim=new)
    assert len(await world.storage.read_events(run)) == 2


async def a_claim_of_a_batch_has_what_running_its_run_needs(world: JournalWorld) -> None:
    run = await begun(world)
    await commit(world, run, checkpoint=checkpoint(run))
    (claim,) = await _taken(world, 1, run)
    assert claim.facts is not None
    assert (claim.facts.run, claim.facts.n, claim.facts.attempts) == (run, 1, 0)


async def workers_that_look_at_once_share_the_runs_and_each_is_claimed_once(world: JournalWorld) -> None:
    await _empty(world)
    runs = {await begun(world) for _ in range(24)}
    batches: list[Claim] = []
    while found := await asyncio.gather(*(_taken(world, 3, worker=f"w{number}") for number in range(4))):
        batches += (claims := [claim for batch in found for claim in batch])
        if not claims:
            break
    mine = [claim for claim in batches if claim.run in runs]
    assert sorted(_runs_of(mine)) == sorted(runs)
    assert len({claim.worker for claim in mine}) > 1
    assert all(claim.epoch == 1 for claim in mine)


async def only_those_asked_for_are_claimed_and_only_if_they_are_due(world: JournalWorld) -> None:
    due, other, held, waits = await begun(world), await begun(world), await begun(world), new_run_id()
    await claimed(world, held)
    await commit(world, waits, standing=Standing(phase=Phase.WAITING))
    given = [due, held, waits, new_run_id(), due]
    assert _runs_of(await _taken(world, 10, *given)) == [due]
    assert await is_due(world, other)


async def a_worker_gets_no_run_whose_code_it_lacks(world: JournalWorld) -> None:
    runs = [await _run_of(world, flow, version) for flow, version in (("a", "1"), ("a", "2"), ("b", "1"))]
    for wanted, served in (
        ([], Serves(workflows=())),
        (runs[1:2], Serves(workflows=("a", "c"), others=(("a", "1"), ("b", "1")))),
        (runs[2:], Serves(workflows=("b",))),
        (runs[:1], Serves(workflows=("a",))),
    ):
        asked = {"worker": "w", "ttl": 600, "serves": served}
        due = await world.storage.due(limit=MANY, serves=served)
        assert [run for run in due if run in runs] == wanted
        others = [run for run in runs if run not in wanted]
        assert _runs_of(await world.storage.claim_due(**asked, limit=3, runs=others)) == []
        assert [run for run in _runs_of(await world.storage.claim_due(**asked, limit=MANY)) if run in runs] == wanted


async def a_workflow_has_no_more_claims_than_its_limit(world: JournalWorld) -> None:
    await _empty(world)
    serves = _limited()
    few, many = await _runs_in(world, serves, 5, 3)
    assert await _placed(world, serves, MANY) == [*few[:2], *many]
    assert await _placed(world, serves, MANY) == await _placed(world, serves, MANY, *few) == []
    assert not {*few} & {*await world.storage.due(limit=MANY, serves=serves)}
    more = replace(serves, limits=dict.fromkeys(serves.limits, 3))
    assert await _placed(world, more, 1, few[4], ttl=0.01) == [few[4]]
    await until(lambda: is_due(world, few[4]))
    # One whose claim has expired is taken over in its own place, before others that are ready.
    assert await _placed(world, more, MANY) == [few[4]]


async def places_stay_with_expired_claims_while_none_is_taken_over(world: JournalWorld) -> None:
    await _empty(world)
    serves = _limited()
    few, _ = await _runs_in(world, serves, 4, 0)
    assert await _placed(world, serves, MANY, ttl=-60) == few[:2]
    asked = {"worker": "away", "ttl": 600, "limit": MANY, "serves": serves, "takeover": False}
    for runs in (None, few):
        assert _runs_of(await world.storage.claim_due(**asked, runs=runs)) == []
    assert await _placed(world, serves, MANY) == few[:2]


async def a_full_workflow_keeps_no_other_one_back(world: JournalWorld) -> None:
    await _empty(world)
    serves = _limited()
    few, many = await _runs_in(world, serves, 9, 2)
    assert await _placed(world, serves, 3) == [*few[:2], many[0]]
    assert await _placed(world, serves, 3) == [many[1]]


async def workers_that_claim_at_once_never_exceed_a_limit(world: JournalWorld) -> None:
    await _empty(world)
    serves = _limited()
    few, _ = await _runs_in(world, serves, 9, 0)
    taken: list[RunId] = []
    for _ in range(3):
        looks = [_placed(world, serves, 2, worker=f"w{number}") for number in range(4)]
        hints = [_placed(world, serves, 1, run, worker="w4") for run in few[:4]]
        taken += [run for batch in await asyncio.gather(*looks, *hints) for run in batch]
    assert len(taken) == len({*taken}) == 2


async def no_suspect_is_in_a_batch(world: JournalWorld) -> None:
    run = await begun(world)
    for worker in ("first", "second"):
        claim = await until(lambda: world.storage.claim(run, worker=worker, ttl=30))  # noqa: B023
        await world.storage.renew(claim, ttl=0.01)
    await until(lambda: is_due(world, run))
    assert await _taken(world, 1, run, worker="third") == []
    assert run not in _runs_of(await _taken(world, MANY, worker="third"))
    assert await is_due(world, run)


async def a_run_that_its_maker_drives_is_in_no_batch(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.save(checkpoint(run))
    assert await _taken(world, 1, run) == []
    assert run not in _runs_of(await _taken(world, MANY))


async def _taken(world: JournalWorld, limit: int, *runs: RunId, worker: str = "test", ttl: float = 600) -> list[Claim]:
    """Return the claims that a worker gets, of these runs or of any."""
    return [*await world.storage.claim_due(worker=worker, ttl=ttl, limit=limit, runs=runs or None)]


def _limited() -> Serves:
    """Return workflows of which the first may have two claims; no other check has them."""
    few, many = (f"{name}-{new_run_id()}" for name in ("few", "many"))
    return Serves(workflows=(few, many), limits={few: 2})


async def _runs_in(world: JournalWorld, serves: Serves, *counts: int) -> list[list[RunId]]:
    """Return so many runs of each workflow that are ready."""
    return [
        [await _run_of(world, name) for _ in range(count)] for name, count in zip(serves.workflows, counts, strict=True)
    ]


async def _placed(
    world: JournalWorld, serves: Serves, limit: int, *runs: RunId, worker: str = "test", ttl: float = 600
) -> list[RunId]:
    """Return the runs that a worker claims, of these or of any."""
    asked = {"worker": worker, "ttl": ttl, "limit": limit, "serves": serves}
    return _runs_of(await world.storage.claim_due(**asked, runs=runs or None))


async def _run_of(world: JournalWorld, workflow: str, version: str = "1") -> RunId:
    """Return a new run of a workflow that is ready, and later ones are so at a later time of any clock."""
    run = new_run_id()
    first = checkpoint(run, workflow=WorkflowId(workflow), version=version)
    await commit(world, run, checkpoint=first, standing=Standing(phase=Phase.READY))
    await asyncio.sleep(0.002)
    return run


async def _one_after_another(world: JournalWorld) -> RunId:
    """Return a run that is ready, and later ones are so at a later time of any clock."""
    run = await begun(world)
    await asyncio.sleep(0.002)
    return run


async def _empty(world: JournalWorld) -> None:
    """Claim what is due from before."""
    while await _taken(world, 500, worker="before"):
        continue


def _runs_of(claims: Iterable[Claim]) -> list[RunId]:
    return [claim.run for claim in claims]


BATCHES = checks_in(globals(), *CLAIMS)

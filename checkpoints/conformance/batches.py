"""What ``Claims.claim_due`` promises: runs in their order, each to one worker, and none that is not due."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from checkpoints.conformance.worlds import (
    MANY,
    JournalWorld,
    asking,
    begun,
    checkpoint,
    checks_in,
    claimed,
    is_due,
    refused,
    until,
)
from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RunId, WorkflowId, new_run_id
from checkpoints.records import Claim, Commit, Phase, Standing
from checkpoints.storage import Serves

EVENT = (EventKind.CUSTOM.draft(),)


async def runs_are_claimed_in_the_order_in_which_they_became_ready(world: JournalWorld) -> None:
    await _empty(world)
    runs = [await _one_after_another(world) for _ in range(5)]
    await world.storage.commit(Commit(run=runs[0], standing=Standing(phase=Phase.READY)))
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
    await world.storage.commit(Commit(run=asleep, standing=Standing(phase=Phase.SLEEPING, wake_at=past)))
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
        await world.storage.commit(Commit(run=run, events=EVENT), claim=old)
    await world.storage.commit(Commit(run=run, events=EVENT), claim=new)
    assert len(await world.storage.read_events(run)) == 2


async def a_claim_of_a_batch_has_what_running_its_run_needs(world: JournalWorld) -> None:
    run = await begun(world)
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run)))
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
    await world.storage.commit(Commit(run=waits, standing=Standing(phase=Phase.WAITING)))
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
    await world.storage.commit(Commit(run=run, checkpoint=first, standing=Standing(phase=Phase.READY)))
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


BATCHES = checks_in(globals())

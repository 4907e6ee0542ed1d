"""What a storage promises that says which runs it holds (``Runs``, ``FindsRuns``), or serves the dashboard's worker."""

from __future__ import annotations

from checkpoints.config import Needs
from checkpoints.conformance.worlds import (
    BIG,
    MANY,
    JournalWorld,
    asking,
    begun,
    checkpoint,
    checks_in,
    claimed,
    commit,
    is_due,
    refused,
    started,
    until,
)
from checkpoints.errors import ClaimLost, Conflict, NotFound
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RunId, WorkflowId, new_run_id
from checkpoints.records import Commit, Phase, Standing
from checkpoints.storage import FindsRuns, Runs


async def ended(world: JournalWorld, workflow: WorkflowId, phase: Phase = Phase.COMPLETED) -> RunId:
    """Return a run that has ended."""
    run = new_run_id()
    standing = Standing(phase=phase)
    await commit(world, run, checkpoint=checkpoint(run, workflow=workflow), standing=standing)
    return run


def of_its_own() -> WorkflowId:
    """Return the name of a workflow that no other run has."""
    return WorkflowId(f"w {new_run_id()}")


async def it_lists_and_removes_runs(world: JournalWorld) -> None:
    assert isinstance(world.storage, Runs)
    assert isinstance(world.storage, FindsRuns)


async def runs_are_listed_newest_first_in_pages(world: JournalWorld) -> None:
    flow = of_its_own()
    runs = [await ended(world, flow, phase) for phase in (Phase.COMPLETED, Phase.FAILED, Phase.COMPLETED)]
    waiting = new_run_id()
    await world.storage.commit(
        asking(waiting, "k").model_copy(update={"checkpoint": checkpoint(waiting, workflow=flow)})
    )
    expected = [waiting, *reversed(runs)]
    assert [info.id for info in await world.storage.list_runs(workflow=flow)] == expected
    page, found = None, []
    while infos := await world.storage.list_runs(workflow=flow, before=page, limit=3):
        found += [info.id for info in infos]
        page = infos[-1]
    assert found == expected
    assert [info.id for info in await world.storage.list_runs(workflow=flow, phase=Phase.WAITING)] == [waiting]
    (failed,) = await world.storage.list_runs(workflow=flow, phase=Phase.FAILED)
    assert (failed.id, failed.n, failed.version, failed.claimed) == (runs[1], 1, "v1", False)
    assert failed.finished is not None
    assert failed.created <= failed.finished
    assert not await world.storage.list_runs(workflow=of_its_own())
    assert not await world.storage.list_runs(workflow=WorkflowId("\x00"))


def _for_workers(run: RunId, flow: WorkflowId) -> Commit:
    """Return the first commit of a run of this workflow that is left to workers."""
    return Commit(run=run, checkpoint=checkpoint(run, workflow=flow), standing=Standing(phase=Phase.READY))


async def a_run_that_is_driven_says_so(world: JournalWorld) -> None:
    flow, run = of_its_own(), new_run_id()
    await world.storage.commit(_for_workers(run, flow))
    claim = await claimed(world, run)
    assert [info.claimed for info in await world.storage.list_runs(workflow=flow)] == [True]
    await world.storage.release(claim)
    assert [info.claimed for info in await world.storage.list_runs(workflow=flow)] == [False]


async def a_deleted_run_leaves_nothing(world: JournalWorld) -> None:
    flow = of_its_own()
    run, other = await ended(world, flow), await ended(world, flow)
    await world.storage.commit(asking(run, "k", n=2, phase=Phase.COMPLETED))
    await world.answer(run, "k", 7)
    assert await world.storage.delete_run(run, force=True)
    assert [info.id for info in await world.storage.list_runs(workflow=flow)] == [other]
    assert await world.storage.get_latest(run) is None
    assert not await world.storage.read_events(run)
    assert not await world.storage.read_answers(run)
    with refused(NotFound):
        await world.storage.read_run(run)
    assert await world.storage.delete_run(run) is False
    assert await world.storage.get_latest(other) is not None
    await world.storage.save(checkpoint(run))
    assert await world.storage.list_checkpoint_ids(run), "its id is free again"


async def a_run_that_is_open_or_driven_is_deleted_only_by_force(world: JournalWorld) -> None:
    flow, run = of_its_own(), new_run_id()
    await world.storage.commit(_for_workers(run, flow))
    with refused(Conflict, saying="cancel it first"):
        await world.storage.delete_run(run)
    claim = await claimed(world, run)
    with refused(Conflict, saying="stop it first"):
        await world.storage.delete_run(run)
    assert len(await world.storage.list_runs(workflow=flow)) == 1
    assert await world.storage.delete_run(run, force=True)
    with refused(ClaimLost):
        await commit(world, run, events=(EventKind.CUSTOM.draft(),), claim=claim)
    assert not await world.storage.list_runs(workflow=flow)


async def a_fork_keeps_what_it_shared_with_a_deleted_run(world: JournalWorld) -> None:
    run, fork = await ended(world, of_its_own()), new_run_id()
    big = checkpoint(run, 2, body=BIG)
    await world.storage.save(big)
    await world.storage.save(checkpoint(run, 3, body={"state": {"only": "x" * 9_000}}))
    forked = await world.storage.fork(run, big.id, fork)
    assert await world.storage.delete_run(run)
    assert (await world.storage.load(fork, forked.id)).body == BIG


async def nothing_is_deleted_of_a_run_that_cannot_exist(world: JournalWorld) -> None:
    for odd in ("\x00", "\ud800", "", "x" * 1_000):
        assert await world.storage.delete_run(RunId(odd)) is False


async def a_run_without_a_checkpoint_is_deleted_too(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(started(run))
    assert await world.storage.delete_run(run, force=True)
    assert not await world.storage.read_events(run)


async def a_checkpoint_is_found_with_its_run(world: JournalWorld) -> None:
    run = await ended(world, of_its_own())
    (id_,) = await world.storage.list_checkpoint_ids(run)
    assert await world.storage.run_of(id_) == run
    for none in ("nothing", "\x00", "\ud800", "", "x" * 1_000):
        assert await world.storage.run_of(CheckpointId(none)) is None
    assert await world.storage.delete(run, id_)
    assert await world.storage.run_of(id_) is None


RUNS = checks_in(globals())


async def claims_of_workers_known_to_be_gone_can_be_ended(world: JournalWorld) -> None:
    run, other = await begun(world), await begun(world)
    prefix = str(new_run_id())
    gone = await world.storage.claim(run, worker=f"{prefix}:1", ttl=60)
    stays = await world.storage.claim(other, worker="elsewhere:1", ttl=60)
    assert gone is not None
    assert stays is not None
    await world.storage.expire_claims(worker_prefix=f"{prefix}:")
    with refused(ClaimLost):
        await world.storage.renew(gone, ttl=60)
    await world.storage.renew(stays, ttl=60)
    assert (await claimed(world, run)).recovered


async def many_claims_are_renewed_at_once_and_the_lost_are_named(world: JournalWorld) -> None:
    runs = [await begun(world) for _ in range(4)]
    claims = [await claimed(world, run, ttl=5) for run in runs]
    await world.storage.release(claims[1])
    await world.cancel(runs[2])
    lost = await world.storage.renew_many(claims, ttl=60)
    assert lost == {claims[1].token, claims[2].token}
    assert await world.storage.renew_many([], ttl=60) == frozenset()
    assert not await world.storage.renew_many([claims[0]], ttl=0.01)
    assert await until(lambda: is_due(world, runs[0]))
    assert await world.storage.claim(runs[0], worker="other", ttl=60)
    assert await world.storage.renew_many([claims[0], claims[3]], ttl=60) == {claims[0].token}


async def an_expired_claim_is_live_again_once_it_is_renewed_while_no_one_has_its_run(world: JournalWorld) -> None:
    run, cancelled = await begun(world), await begun(world)
    claim, revoked = await claimed(world, run, ttl=0.01), await claimed(world, cancelled, ttl=0.01)
    assert await until(lambda: is_due(world, run))
    await world.cancel(cancelled)
    assert await world.storage.renew_many([claim, revoked], ttl=60) == {revoked.token}
    assert not await is_due(world, run)
    await commit(world, run, checkpoint=checkpoint(run), claim=claim)


async def a_batch_leaves_runs_with_expired_claims_to_their_workers_where_asked_to(world: JournalWorld) -> None:
    run, fresh = await begun(world), await begun(world)
    await claimed(world, run, ttl=0.01)
    assert await until(lambda: is_due(world, run))
    asked = {"worker": "other", "ttl": 60, "limit": 10, "takeover": False}
    assert await world.storage.claim_due(**asked, runs=[run]) == []
    taken = [claim.run for claim in await world.storage.claim_due(**{**asked, "limit": MANY})]
    assert fresh in taken
    assert run not in taken
    assert await is_due(world, run)


async def suspects_are_found_and_taken_apart_from_the_others(world: JournalWorld) -> None:
    run, innocent = await begun(world), await begun(world)
    for worker in ("first", "second"):
        claim = await until(lambda: world.storage.claim(run, worker=worker, ttl=5))  # noqa: B023
        await world.storage.renew(claim, ttl=0.01)
    await until(lambda: is_due(world, run))
    assert run in await world.storage.due(limit=10_000, suspect=True)
    assert innocent not in await world.storage.due(limit=10_000, suspect=True)
    assert run not in await world.storage.due(limit=10_000, suspect=False)
    assert innocent in await world.storage.due(limit=10_000, suspect=False)
    found = await world.storage.look(suspects=10_000)
    assert found.is_any_due
    assert run in found.suspects
    assert innocent not in found.suspects
    assert await world.storage.claim(run, worker="third", ttl=5, suspects=False) is None
    claim = await world.storage.claim(run, worker="third", ttl=5)
    assert claim is not None
    assert claim.attempts == 2
    await world.storage.trust(claim)
    assert (await world.storage.read_run(run)).attempts == 0


async def a_worker_can_read_what_driving_a_run_needs(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.save(checkpoint(run, 4))
    facts = await world.storage.read_run(run)
    assert (facts.run, facts.workflow, facts.version, facts.n, facts.attempts) == (run, "expense", "v1", 4, 0)
    with refused(NotFound):
        await world.storage.read_run(new_run_id())


async def what_depends_on_a_run_is_known(world: JournalWorld) -> None:
    run = new_run_id()
    first = checkpoint(run, 1)
    await world.storage.save(first)
    assert await world.storage.read_needs(run) == Needs()
    await world.storage.fork(run, first.id, new_run_id())
    await commit(world, run, standing=Standing(phase=Phase.COMPLETED))
    needs = await world.storage.read_needs(run)
    assert needs.ended
    assert first.id in needs.origins


async def only_the_first_answer_counts(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a"))
    await world.answer(run, "a", 1)
    with refused(Exception):
        await world.answer(run, "a", 2)
    assert [answer.value for answer in (await world.storage.read_answers(run)).values()] == [1]


WORKER = checks_in(globals(), *RUNS)

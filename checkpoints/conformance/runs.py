"""What a storage promises that says which runs it holds: ``Runs`` and ``FindsRuns``."""

from __future__ import annotations

from checkpoints.conformance.worlds import BIG, JournalWorld, asking, checkpoint, checks_in, claimed, refused, started
from checkpoints.errors import ClaimLost, Conflict, NotFound
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RunId, WorkflowId, new_run_id
from checkpoints.records import Commit, Phase, Standing
from checkpoints.storage import FindsRuns, Runs


async def ended(world: JournalWorld, workflow: WorkflowId, phase: Phase = Phase.COMPLETED) -> RunId:
    """Return a run that has ended."""
    run = new_run_id()
    standing = Standing(phase=phase)
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run, workflow=workflow), standing=standing))
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
        await world.storage.commit(Commit(run=run, events=(EventKind.CUSTOM.draft(),)), claim=claim)
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

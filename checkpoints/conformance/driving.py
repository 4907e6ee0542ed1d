"""What the dashboard's runner and the manager ask besides the ports: optional for a storage of one's own."""

from __future__ import annotations

from checkpoints.conformance.samples import asking, begun, checkpoint, checks_in, claimed, refused
from checkpoints.conformance.worlds import Peopled
from checkpoints.errors import ClaimLost, NotFound
from checkpoints.ids import new_run_id
from checkpoints.records import Commit, Phase, Standing
from checkpoints.retention import Needs


async def claims_of_workers_known_to_be_gone_can_be_ended(world: Peopled) -> None:
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


async def a_worker_can_read_what_driving_a_run_needs(world: Peopled) -> None:
    run = new_run_id()
    await world.storage.save(checkpoint(run, 4))
    facts = await world.storage.read_run(run)
    assert (facts.run, facts.workflow, facts.version, facts.n, facts.attempts) == (run, "expense", "v1", 4, 0)
    with refused(NotFound):
        await world.storage.read_run(new_run_id())


async def what_depends_on_a_run_is_known(world: Peopled) -> None:
    run = new_run_id()
    first = checkpoint(run, 1)
    await world.storage.save(first)
    assert await world.storage.read_needs(run) == Needs()
    await world.storage.fork(run, first.id, new_run_id())
    await world.storage.commit(Commit(run=run, standing=Standing(phase=Phase.COMPLETED)))
    needs = await world.storage.read_needs(run)
    assert needs.ended
    assert first.id in needs.origins


async def only_the_first_answer_counts(world: Peopled) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a"))
    await world.answer(run, "a", 1)
    with refused(Exception):
        await world.answer(run, "a", 2)
    assert [answer.value for answer in (await world.storage.read_answers(run)).values()] == [1]


DRIVING = checks_in(globals())

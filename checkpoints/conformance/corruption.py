"""Corruption checks: a storage reports damaged content and never returns anything else instead."""

from __future__ import annotations

from checkpoints.conformance.worlds import BIG, ChunkWorld, DamageWorld, FailingWorld, checkpoint, checks_in, refused
from checkpoints.errors import Damaged, StorageFailed
from checkpoints.ids import new_run_id


async def a_changed_byte_is_damage(world: DamageWorld) -> None:
    run = new_run_id()
    older, newer = checkpoint(run, 1), checkpoint(run, 2)
    await world.storage.save(older)
    await world.storage.save(newer)
    await world.damage(run, newer.id)
    with refused(Damaged):
        await world.storage.get_latest(run)
    with refused(Damaged):
        await world.storage.load(run, newer.id)
    assert (await world.storage.load(run, older.id)).body == older.body


async def damage_that_was_found_is_remembered(world: DamageWorld) -> None:
    run = new_run_id()
    saved = checkpoint(run)
    await world.storage.save(saved)
    await world.damage(run, saved.id)
    assert [info.clean for info in await world.storage.list_checkpoints(run)] == [True]
    for _ in range(2):
        with refused(Damaged):
            await world.storage.load(run, saved.id)
        (info,) = await world.storage.list_checkpoints(run)
        assert not info.clean
        assert 0 < len(info.flaw) < 200


async def a_damaged_checkpoint_cannot_be_forked(world: DamageWorld) -> None:
    run, fork = new_run_id(), new_run_id()
    saved = checkpoint(run)
    await world.storage.save(saved)
    await world.damage(run, saved.id)
    with refused(Damaged):
        await world.storage.fork(run, saved.id, fork)
    assert await world.storage.get_latest(fork) is None
    assert list(await world.storage.list_checkpoint_ids(fork)) == []


DAMAGE = checks_in(globals())


async def a_database_that_fails_is_one_class_of_error(world: FailingWorld) -> None:
    run, storage = new_run_id(), world.storage
    saved = checkpoint(run)
    await storage.save(saved)
    async with world.failing():
        for call in (storage.get_latest(run), storage.load(run, saved.id), storage.save(checkpoint(run, 2))):
            with refused(StorageFailed) as caught:
                await call
            assert caught[0].__cause__ is not None, "the driver's error is lost"
    assert (await storage.load(run, saved.id)).body == saved.body
    assert await storage.save(checkpoint(run, 2))


FAILURES = checks_in(globals(), *DAMAGE)


async def a_changed_or_lost_chunk_is_damage(world: ChunkWorld) -> None:
    for harm in (world.damage_chunk, world.lose_chunk):
        run = new_run_id()
        saved = checkpoint(run, body=BIG)
        await world.storage.save(saved)
        await harm(run)
        with refused(Damaged):
            await world.storage.load(run, saved.id)
        with refused(Damaged):
            await world.storage.get_latest(run)


async def what_is_the_same_is_kept_once(world: ChunkWorld) -> None:
    run = new_run_id()
    await world.storage.save(checkpoint(run, 1, body=BIG))
    before = await world.chunks(run)
    assert before > 10
    await world.storage.save(checkpoint(run, 2, body={**BIG, "position": {"n": 2}}))
    await world.storage.fork(run, (await world.storage.get_latest(run)).id, new_run_id())
    assert await world.chunks(run) <= before + 3


async def pruning_removes_what_is_not_shared(world: ChunkWorld) -> None:
    run = new_run_id()
    other = {"state": {"text": " ".join(map(str, range(8000)))}}
    bodies = [BIG, other, {"state": {**BIG["state"], "more": "y" * 5000}}]
    saved = [checkpoint(run, n, body=body) for n, body in enumerate(bodies, 1)]
    for each in saved:
        await world.storage.save(each)
    before = await world.chunks(run)
    assert await world.storage.prune(run, [saved[1].id]) == 1
    assert await world.chunks(run) < before - 20
    for kept in (saved[0], saved[2]):
        assert (await world.storage.load(run, kept.id)).body == kept.body
    between = await world.chunks(run)
    assert await world.storage.prune(run, [saved[0].id]) == 1
    assert between - 5 < await world.chunks(run) <= between
    assert (await world.storage.load(run, saved[2].id)).body == saved[2].body


async def pruning_removes_what_deleting_left(world: ChunkWorld) -> None:
    run = new_run_id()
    big, small = checkpoint(run, 1, body=BIG), checkpoint(run, 2)
    await world.storage.save(big)
    await world.storage.save(small)
    await world.storage.delete(run, big.id)
    assert await world.chunks(run) > 0
    assert await world.storage.prune(run, []) == 0
    assert await world.chunks(run) == 0


async def pruning_keeps_everything_while_something_cannot_be_followed(world: ChunkWorld) -> None:
    run = new_run_id()
    saved = [checkpoint(run, n, body={**BIG, "position": {"n": n}}) for n in (1, 2)]
    for each in saved:
        await world.storage.save(each)
    await world.lose_chunk(run)
    before = await world.chunks(run)
    await world.storage.save(checkpoint(run, 3))
    assert await world.storage.prune(run, [saved[0].id]) == 1
    assert await world.chunks(run) == before


CHUNKS = checks_in(globals(), *DAMAGE, *FAILURES)

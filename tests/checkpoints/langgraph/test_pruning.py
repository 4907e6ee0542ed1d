from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langgraph")

from checkpoints.errors import Conflict, InvalidValue
from checkpoints.ids import new_run_id
from checkpoints.langgraph import DjangoSaver
from checkpoints.langgraph.models import LangGraphThread, ThreadWrite
from tests.checkpoints.langgraph.samples import BIG, all_chunks, chain, checkpoint, chunks_of, in_orm, put, thread
from tests.conformance.worlds import DatabaseWorld
from tests.conformance.worlds import checkpoint as run_checkpoint


async def value(saver: Any, config: Any, channel: str = "big") -> Any:
    """Return a channel of the newest checkpoint."""
    return (await saver.aget_tuple(config)).checkpoint["channel_values"][channel]


def name(config: Any) -> str:
    """Return the thread of a config."""
    return str(config["configurable"]["thread_id"])


async def test_a_pruned_thread_keeps_its_newest_value_and_no_other_content(alias: str, saver: Any) -> None:
    config = thread()
    first = await put(saver, config, checkpoint(big={**BIG, "first": "x" * 20_000}))
    await saver.aput_writes(first, [("big", ["y" * 20_000])], "t")
    last = await put(saver, first, checkpoint(big=BIG))
    await saver.aput_writes(last, [("big", ["z" * 20_000])], "t")
    before = await chunks_of(alias, config)
    await saver.aprune([name(config)])
    assert await chunks_of(alias, config) <= before - 5
    found = await saver.aget_tuple(config)
    assert (found.checkpoint["channel_values"]["big"], found.parent_config) == (BIG, None)
    assert found.pending_writes == [("t", "big", ["z" * 20_000])]
    # What comes next may reuse nothing that is gone.
    await put(saver, last, checkpoint(big={**BIG, "first": "x" * 20_000}))
    assert await value(saver, config) == {**BIG, "first": "x" * 20_000}


async def test_the_content_of_a_copy_outlives_its_origin(alias: str, saver: Any) -> None:
    config, copy = thread(), thread()
    (stored,) = await chain(saver, config, 1, big=BIG)
    await saver.aput_writes(stored, [("big", BIG)], "t")
    before = await all_chunks(alias)
    await saver.acopy_thread(name(config), name(copy))
    assert await all_chunks(alias) == before
    await put(saver, stored, checkpoint(big={"only": "of the origin" * 1000}))
    await saver.adelete_thread(name(config))
    found = await saver.aget_tuple(copy)
    assert (found.checkpoint["channel_values"]["big"], found.pending_writes) == (BIG, [("t", "big", BIG)])
    assert await all_chunks(alias) <= before
    await saver.adelete_thread(name(copy))
    assert await all_chunks(alias) <= before - 5


async def test_a_thread_is_not_copied_over_another(saver: Any) -> None:
    first, second = await put(saver, thread()), await put(saver, thread())
    with pytest.raises(Conflict, match="exists already"):
        await saver.acopy_thread(name(first), name(second))
    assert (await saver.aget_tuple(second)).config == second


async def test_pruning_runs_and_threads_do_not_touch_each_other(alias: str, saver: Any) -> None:
    world, run = DatabaseWorld(alias), new_run_id()
    body = {"state": {key: text * 5 for key, text in BIG.items()}, "position": {}}
    ids = [await world.storage.save(run_checkpoint(run, n, body={**body, "n": n})) for n in (1, 2)]
    config = thread()
    await chain(saver, config, 2, big=BIG)
    threads, runs = await chunks_of(alias, config), await world.chunks(run)
    assert min(threads, runs) > 5
    await world.storage.prune(run, ids[:1])
    assert await chunks_of(alias, config) == threads
    await saver.aprune([name(config)])
    assert await value(saver, config) == BIG
    assert (await world.storage.load(run, ids[1])).body == {**body, "n": 2}
    await world.storage.delete_run(run, force=True)
    assert await value(saver, config) == BIG
    await saver.adelete_thread(name(config))
    await world.storage.aclose()


async def test_what_is_written_during_a_pruning_stays(alias: str, saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = thread()
    stored = await chain(saver, config, 3, big=BIG)
    late = {**BIG, "late": "z" * 20_000}
    run = saver._access.run

    async def after_another(call: Any) -> Any:
        async with DjangoSaver(using=alias) as other:
            for _ in range(call.writes):
                await put(other, stored[-1], checkpoint(big=late))
                await other.aput_writes(stored[-1], [("big", ["late" * 5000])], "t")
        return await run(call)

    monkeypatch.setattr(saver._access, "run", after_another)
    await saver.aprune([name(config)])
    monkeypatch.undo()
    assert [one.checkpoint["channel_values"]["big"] async for one in saver.alist(config)] == [late]


async def test_content_stays_where_something_cannot_be_followed(alias: str, saver: Any) -> None:
    config = thread()
    await chain(saver, config, 2, big=BIG)
    await put(saver, thread(name(config), checkpoint_ns="broken"), checkpoint(big=BIG))
    await saver.aput_writes(thread(name(config), checkpoint_id="other"), [("a", "x" * 9000)], "t")
    rows = ThreadWrite.objects.using(alias).filter(thread__name=name(config), checkpoint="other")
    await in_orm(alias, lambda: rows.update(body=rows.get().body.replace('"f":1', '"f":9')))
    before = await chunks_of(alias, config)
    await saver.aprune([name(config)])
    assert await chunks_of(alias, config) == before
    assert await value(saver, config) == BIG


async def test_a_nested_call_goes_with_the_checkpoint_it_began_from(saver: Any) -> None:
    config = thread()
    first, second = await chain(saver, config, 2)
    old, current, kept = [
        await put(saver, thread(name(config), checkpoint_ns=ns), parents={"": caller["configurable"]["checkpoint_id"]})
        for ns, caller in (("call:1", first), ("call:2", second), ("subgraph", first))
    ]
    await saver.aput_writes(old, [("a", 1)], "t")
    await saver.aprune([name(config)])
    assert await saver.aget_tuple(old) is None
    found = [one.config async for one in saver.alist({"configurable": {"thread_id": name(config)}})]
    assert found == [kept, current, second]


async def test_a_run_is_deleted_from_every_thread(alias: str, saver: Any) -> None:
    first, second, run = thread(), thread(), "run " * 200
    for config in (first, second):
        gone = await put(saver, config, checkpoint(big={"gone": "x" * 20_000}), run_id=run)
        await saver.aput_writes(gone, [("a", 1)], "t")
        await put(saver, gone, checkpoint(big=BIG), run_id="another")
        await saver.aput_writes(thread(name(config), checkpoint_ns="n", checkpoint_id="early"), [("a", 1)], "t")
    before = await chunks_of(alias, first)
    await saver.adelete_for_runs([run, "unknown"])
    for config in (first, second):
        assert [one.metadata["run_id"] async for one in saver.alist(config)] == ["another"]
        assert await value(saver, config) == BIG
    assert await chunks_of(alias, first) < before


async def test_a_single_text_is_no_list_of_ids(saver: Any) -> None:
    for act in (saver.aprune, saver.adelete_for_runs):
        with pytest.raises(InvalidValue, match="give a list"):
            await act("thread")
    with pytest.raises(InvalidValue, match="keep_latest or delete"):
        await saver.aprune(["thread"], strategy="keep_some")


async def test_a_deleted_thread_leaves_nothing(alias: str, saver: Any) -> None:
    before = await all_chunks(alias)
    config = thread()
    stored = await chain(saver, config, 2, big=BIG)
    await saver.aput_writes(stored[-1], [("big", BIG)], "t")
    await saver.aprune([name(config)], strategy="delete")
    assert await all_chunks(alias) == before
    assert not await in_orm(alias, LangGraphThread.objects.using(alias).filter(name=name(config)).exists)
    await saver.adelete_thread(name(config))
    await saver.acopy_thread(name(config), "target")
    assert await saver.aget_tuple(thread("target")) is None


async def test_prunings_and_writers_at_once_lose_nothing(alias: str, saver: Any) -> None:
    config = thread()

    async def run() -> None:
        last = config
        for n in range(12):
            last = await put(saver, last, checkpoint(n=n, big={**BIG, f"key {n:03d}": f"new {n}" * 100}))

    async def prune() -> None:
        for _ in range(6):
            async with DjangoSaver(using=alias) as other:
                await other.aprune([name(config)])

    await asyncio.gather(run(), prune())
    found = [one async for one in saver.alist(config)]
    assert found[0].checkpoint["channel_values"]["n"] == 11
    for one in found:
        n = one.checkpoint["channel_values"]["n"]
        assert one.checkpoint["channel_values"]["big"] == {**BIG, f"key {n:03d}": f"new {n}" * 100}

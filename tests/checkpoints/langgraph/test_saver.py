from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("langgraph")

from django.db import connections, transaction
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt

from checkpoints.errors import Conflict, Damaged, InvalidConfig, InvalidValue
from checkpoints.langgraph import DjangoSaver
from checkpoints.langgraph.models import LangGraphThread, ThreadCheckpoint, ThreadWrite
from checkpoints.models import Chunk, Run
from tests.checkpoints.langgraph.own_types import Colour, Holder, Moment, Own, Painted
from tests.checkpoints.langgraph.samples import BIG, chain, checkpoint, chunks_of, in_orm, put, thread

ODD = "Zürich 東京 \U0001f600 ' \" ; -- %s ? \x1f \uffff"


async def test_a_thread_may_have_any_name(saver: Any) -> None:
    for name in (ODD * 20, "x" * 5000, "\U0001f600" * 500, " ", "0"):
        config = thread(name, checkpoint_ns="outer:1|" + "inner:2|" * 40)
        stored = await put(saver, config, checkpoint(name=name))
        await saver.aput_writes(stored, [(ODD, name)], ODD, ODD)
        found = await saver.aget_tuple(config)
        assert found.config == stored
        assert (found.checkpoint["channel_values"], found.pending_writes) == ({"name": name}, [(ODD, ODD, name)])
        assert [one.config async for one in saver.alist(config)] == [stored]
        await saver.adelete_thread(name)
        assert await saver.aget_tuple(config) is None


@pytest.mark.parametrize(
    ("field", "config"),
    [
        ("thread_id", thread("a\0b")),
        ("thread_id", thread("half \ud800")),
        ("thread_id", {"configurable": {}}),
        ("checkpoint_ns", thread("t", checkpoint_ns="\0")),
        ("checkpoint_ns", thread("t", checkpoint_ns="n" * 1501)),
        ("checkpoint_id", thread("t", checkpoint_id="\U0001f600" * 101)),
    ],
)
async def test_what_no_database_keeps_is_refused_by_name(saver: Any, field: str, config: Any) -> None:
    with pytest.raises(InvalidValue, match=field):
        await put(saver, config)
    with pytest.raises(InvalidValue, match=field):
        await saver.aget_tuple(config)
    with pytest.raises(InvalidValue, match=field):
        [one async for one in saver.alist(config)]


async def test_metadata_is_json_and_loses_only_what_no_database_keeps(saver: Any) -> None:
    given = {
        "counters": {"a": (1, 2)},
        "deep": [{"k\0": "v\0"}],
        "whole": 1.0,
        "big": 10**30,
        "order": {"z": 1, "a": 2},
    }
    stored = await put(saver, thread(), **given)
    metadata = (await saver.aget_tuple(stored)).metadata
    expected = {"counters": {"a": [1, 2]}, "deep": [{"k": "v"}], "whole": 1.0, "big": 10**30}
    assert {key: metadata[key] for key in expected} == expected
    for bad in (object(), float("nan"), "\ud800"):
        with pytest.raises(InvalidValue, match="metadata"):
            await put(saver, thread(), deep=[bad])


async def test_a_list_is_filtered_by_the_values_of_any_key(saver: Any, alias: str) -> None:
    config = thread()
    odd = "'; DROP TABLE checkpoints_langgraph_thread; --"
    stored = {
        name: await put(
            saver, config, source=name, run_id=name * 300, step=step, **{odd: {"a": [1, {"b": 2.0}]}}, flag=flag
        )
        for step, (name, flag) in enumerate((("input", True), ("loop", 1), ("fork", None)))
    }

    async def found(**where: Any) -> set[str]:
        return {one.metadata["source"] async for one in saver.alist(config, filter=where)}

    assert await found(**{odd: {"a": [1, {"b": 2}]}}) == set(stored)
    assert await found(**{odd: {"a": [1]}}) == set()
    assert await found(**{"' OR 1=1 --": 1}) == set()
    assert await found(flag=True) == {"input"}
    assert await found(flag=1) == {"loop"}
    assert await found(flag=None) == await found(flag=None, missing=None) == {"fork"}
    assert await found(run_id="loop" * 300, step=1) == {"loop"}
    assert await found(step="1") == await found(step=1.5) == await found(step=True) == set()
    assert await found(step=10**30) == set()
    assert await in_orm(
        alias, LangGraphThread.objects.using(alias).filter(name=config["configurable"]["thread_id"]).exists
    )


async def test_lists_of_several_pages_are_complete_and_in_order(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpoints.langgraph.reads.PAGE", 4)
    monkeypatch.setattr("checkpoints.langgraph.reads.GROUP", 200_000)
    config = thread()
    stored = await chain(saver, config, 11, big=BIG)
    other = await put(saver, thread(config["configurable"]["thread_id"], checkpoint_ns="child"))
    everywhere = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    assert [one.config async for one in saver.alist(config)] == stored[::-1]
    assert [one.config async for one in saver.alist(everywhere)] == [other, *stored[::-1]]
    assert [one.config async for one in saver.alist(config, limit=5, before=stored[7])] == stored[6:1:-1]
    assert [one.config async for one in saver.alist(config, filter={"step": 3})] == [stored[3]]
    assert [one.config async for one in saver.alist(config, limit=0)] == []
    assert other in [one.config async for one in saver.alist(None, limit=2)]
    assert await asyncio.to_thread(lambda: [one.config for one in saver.list(config)]) == stored[::-1]


async def test_writes_may_be_there_before_their_checkpoint(saver: Any) -> None:
    config, one = thread(), checkpoint(a=1)
    place = thread(config["configurable"]["thread_id"], checkpoint_id=one["id"])
    await saver.aput_writes(place, [("a", "early")], "task")
    assert await saver.aget_tuple(config) is None
    await put(saver, config, one)
    assert (await saver.aget_tuple(config)).pending_writes == [("task", "a", "early")]


async def test_a_task_writes_once_and_asks_again(saver: Any) -> None:
    stored = await put(saver, thread())
    await saver.aput_writes(stored, [("a", 1), ("a", 2)], "t1", "~2")
    await saver.aput_writes(stored, [("a", 3)], "t1", "~2")
    await saver.aput_writes(stored, [("a", 4)], "t0", "~1")
    await saver.aput_writes(stored, [("__interrupt__", "old")], "t2", "~3")
    await saver.aput_writes(stored, [("__interrupt__", "lost"), ("__interrupt__", "new")], "t2", "~3")
    written = (await saver.aget_tuple(stored)).pending_writes
    assert written == [("t0", "a", 4), ("t1", "a", 1), ("t1", "a", 2), ("t2", "__interrupt__", "new")]


async def test_the_same_checkpoint_may_be_in_two_threads(saver: Any) -> None:
    one = checkpoint(a="first")
    first, second = (
        await put(saver, thread(), one),
        await put(saver, thread(), {**one, "channel_values": {"a": "second"}}),
    )
    assert (await saver.aget_tuple(first)).checkpoint["channel_values"] == {"a": "first"}
    assert (await saver.aget_tuple(second)).checkpoint["channel_values"] == {"a": "second"}


async def test_of_two_that_put_one_checkpoint_at_once_one_wins(saver: Any) -> None:
    config, one = thread(), checkpoint(a=0, big=BIG)
    values = [{"a": n, "big": {**BIG, "n": n}} for n in range(8)]
    await asyncio.gather(*(put(saver, config, {**one, "channel_values": value}) for value in values))
    assert (await saver.aget_tuple(config)).checkpoint["channel_values"] in values
    assert len([one async for one in saver.alist(config)]) == 1


async def test_what_a_thread_has_is_not_stored_again(alias: str, saver: Any) -> None:
    config = thread()
    stored = await chain(saver, config, 1, big=BIG)
    before = await chunks_of(alias, config)
    assert before > 5
    changed = {**BIG, "key 100": BIG["key 100"].upper()}
    stored.append(await put(saver, stored[-1], checkpoint(big=changed)))
    assert await chunks_of(alias, config) - before <= 4
    # Another process knows nothing of what is stored, and stores nothing twice.
    async with DjangoSaver(using=alias) as other:
        grown = {"new": "x" * 100, **changed, "last": "y" * 100}
        stored.append(await put(other, stored[-1], checkpoint(big=grown)))
        assert await chunks_of(alias, config) - before <= 12
        for one, value in zip(stored, (BIG, changed, grown), strict=True):
            assert (await other.aget_tuple(one)).checkpoint["channel_values"]["big"] == value


async def test_a_value_that_did_not_change_is_not_even_looked_at(saver: Any) -> None:
    class Once(JsonPlusSerializer):
        seen: list[Any] = []

        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            self.seen.append(obj)
            return super().dumps_typed(obj)

    config, serde = thread(), Once()
    saver.serde = serde
    first = checkpoint(big=BIG, small=1)
    stored = await put(saver, config, first)
    second = checkpoint(small=2)
    second = {
        **second,
        "channel_values": {"big": BIG, "small": 2},
        "channel_versions": {**first["channel_versions"], **second["channel_versions"]},
    }
    changed = {"small": second["channel_versions"]["small"]}
    serde.seen.clear()
    await saver.aput(stored, second, {}, changed)
    assert BIG not in serde.seen
    assert (await saver.aget_tuple(config)).checkpoint["channel_values"] == {"big": BIG, "small": 2}


async def test_a_thread_that_was_deleted_in_between_is_stored_in_full(alias: str, saver: Any) -> None:
    config = thread()
    (last,) = await chain(saver, config, 1, big=BIG)
    async with DjangoSaver(using=alias) as other:
        await other.adelete_thread(config["configurable"]["thread_id"])
    await saver.aput(last, checkpoint(big=BIG), {}, {})
    assert (await saver.aget_tuple(config)).checkpoint["channel_values"] == {"big": BIG}


async def test_a_checkpoint_and_what_led_to_it_share_a_transaction(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpoints.langgraph.verbs.MOMENT", 30)
    config = thread()
    first = await put(saver, config)
    calls: list[Any] = []
    run = saver._access.run

    async def counted(call: Any) -> Any:
        calls.append(call)
        return await run(call)

    monkeypatch.setattr(saver._access, "run", counted)
    waiting = [asyncio.create_task(saver.aput_writes(first, [("a", n)], f"t{n}")) for n in range(3)]
    await asyncio.sleep(0)
    await put(saver, first)
    await asyncio.gather(*waiting)
    assert [call.writes for call in calls] == [True]
    assert len((await saver.aget_tuple(first)).pending_writes) == 3


async def test_writes_are_stored_though_the_checkpoint_after_them_is_not(
    saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkpoints.langgraph.verbs.MOMENT", 30)
    first = await put(saver, thread())
    waiting = asyncio.create_task(saver.aput_writes(first, [("a", 1)], "t"))
    await asyncio.sleep(0)
    bad = {**checkpoint(a=1), "id": "x" * 300}
    monkeypatch.setattr("checkpoints.langgraph.writes.checkpoint_row", lambda *row: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await put(saver, first, bad)
    monkeypatch.undo()
    await waiting
    assert (await saver.aget_tuple(first)).pending_writes == [("t", "a", 1)]


async def test_writes_whose_task_was_cancelled_leave_nothing_behind(
    saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkpoints.langgraph.verbs.MOMENT", 30)
    first = await put(saver, thread())
    waiting = asyncio.create_task(saver.aput_writes(first, [("a", 1)], "t"))
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    assert saver._company._waiting == {}


def test_ten_threads_may_use_one_saver(alias: str) -> None:
    with DjangoSaver(using=alias) as saver, ThreadPoolExecutor(10) as threads:

        def work(n: int) -> Any:
            config = last = thread()
            for step in range(3):
                one = checkpoint(n=n, step=step, big={**BIG, "n": n})
                last = saver.put(last, one, {}, one["channel_versions"])
                saver.put_writes(last, [("n", n)], "task")
            found = saver.get_tuple(config)
            assert found is not None
            return found.checkpoint["channel_values"]["big"]["n"], found.pending_writes

        assert list(threads.map(work, range(20))) == [(n, [("task", "n", n)]) for n in range(20)]
        assert len(saver._access._blocking._idle) <= 12  # type: ignore[union-attr]


@pytest.mark.postgres
def test_loops_that_ended_leave_no_connections(postgres_alias: str) -> None:
    saver, config = DjangoSaver(using=postgres_alias), thread()

    async def once() -> None:
        await put(saver, config)
        assert await saver.aget_tuple(config) is not None

    for _ in range(15):
        asyncio.run(once())
    with connections[postgres_alias].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        assert cursor.fetchone()[0] < 10
    connections[postgres_alias].close()
    saver.close()


@pytest.mark.postgres
async def test_a_step_is_one_statement_on_postgresql(postgres_alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with DjangoSaver(using=postgres_alias) as saver:
        config = thread()
        (last,) = await chain(saver, config, 1, big=BIG)
        for blocking in (False, True):
            one, work = checkpoint(big=BIG | {"key 007": f"{blocking} " * 500}), [("n", 1), ("big", BIG)]
            given = (last, one, {"source": "loop"}, one["channel_versions"])
            with monkeypatch.context() as without:
                without.delattr("checkpoints.sql.postgres.beginning")
                without.delattr("checkpoints.sql.postgres_scripts.beginning")
                last = saver.put(*given) if blocking else await saver.aput(*given)
                written = (last, work, "task")
                await (asyncio.to_thread(saver.put_writes, *written) if blocking else saver.aput_writes(*written))
            found = await saver.aget_tuple(last)
            assert found.checkpoint["channel_values"] == one["channel_values"]
            assert found.pending_writes == [("task", "n", 1), ("task", "big", BIG)]


@pytest.mark.postgres
async def test_what_a_removal_takes_while_a_step_waits_for_it_is_stored_again(postgres_alias: str) -> None:
    async with DjangoSaver(using=postgres_alias) as saver:
        config, locked = thread(), threading.Event()
        (last,) = await chain(saver, config, 1, big=BIG)

        def remove() -> None:
            threads = LangGraphThread.objects.using(postgres_alias).select_for_update()
            found = threads.get(name=config["configurable"]["thread_id"])
            locked.set()
            with connections[postgres_alias].cursor() as cursor:
                for _ in range(1000):
                    cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
                    if cursor.fetchone()[0]:
                        break
                    time.sleep(0.01)
            ThreadCheckpoint.objects.using(postgres_alias).filter(thread=found).delete()
            Chunk.objects.using(postgres_alias).filter(family=found.family).delete()

        removing = asyncio.create_task(in_orm(postgres_alias, remove))
        await asyncio.to_thread(locked.wait, 30)
        await saver.aput(last, checkpoint(big=BIG), {}, {})
        await removing
        assert (await saver.aget_tuple(config)).checkpoint["channel_values"] == {"big": BIG}


async def test_a_row_of_megabytes_is_sent_to_its_end(saver: Any) -> None:
    config, long = thread(), "long" * 750_000
    last = await put(saver, config, note=long)
    saver.put(last, checkpoint(), {"source": "loop", "note": long}, {})
    assert [one.metadata["note"] async for one in saver.alist(config)] == [long, long]


async def test_the_synchronous_twins_work_within_a_running_loop(saver: Any) -> None:
    config, one = thread(), checkpoint(a=1)
    saver.put(config, one, {}, {})
    assert saver.get_tuple(config).checkpoint["id"] == one["id"]
    assert (await saver.aget_tuple(config)).checkpoint["id"] == one["id"]


@pytest.mark.parametrize("damage", ["body", "metadata", "chunk", "lost", "parent", "write"])
async def test_damage_is_found_and_said(alias: str, saver: Any, damage: str) -> None:
    config = thread()
    good, bad = await chain(saver, config, 2, big=BIG)
    await saver.aput_writes(bad, [("a", "written")], "t")
    name = config["configurable"]["thread_id"]

    def harm() -> None:
        rows = ThreadCheckpoint.objects.using(alias).filter(
            thread__name=name, checkpoint=bad["configurable"]["checkpoint_id"]
        )
        chunks = Chunk.objects.using(alias).filter(family=LangGraphThread.objects.using(alias).get(name=name).family)
        match damage:
            case "body":
                rows.update(body=rows.get().body.replace('"f":1', '"f":0'))
            case "metadata":
                rows.update(metadata={"source": "other"})
            case "parent":
                rows.update(parent="other")
            case "chunk":
                chunks.update(data=b"other")
            case "lost":
                chunks.delete()
            case "write":
                ThreadWrite.objects.using(alias).filter(thread__name=name).update(channel="b")

    await in_orm(alias, harm)
    with pytest.raises(Damaged, match=r"choose an older|does not match"):
        await saver.aget_tuple(bad)
    with pytest.raises(Damaged):
        [one async for one in saver.alist(config)]
    if damage not in ("chunk", "lost"):
        assert (await saver.aget_tuple(good)).checkpoint["channel_values"]["big"] == BIG


def test_a_graph_is_not_run_inside_of_a_transaction(alias: str) -> None:
    from langgraph.graph import START, StateGraph

    graph = StateGraph(dict)  # type: ignore[type-var]
    graph.add_node("n", lambda state: state)
    graph.add_edge(START, "n")
    with DjangoSaver(using=alias) as saver:
        app, config, one = graph.compile(checkpointer=saver), thread(), checkpoint(a=1)
        connections[alias].ensure_connection()
        try:
            with transaction.atomic(alias):
                with pytest.raises(Conflict, match="inside of a transaction"):
                    saver.put(config, one, {}, {})
                assert saver.get_tuple(config) is None
                with pytest.raises(Conflict, match="non_atomic_requests"):
                    app.invoke({"a": 1}, config)
            app.invoke({"a": 1}, config)
        finally:
            connections[alias].close()
        assert saver.get_tuple(config) is not None


async def test_only_allowed_types_are_made_again(alias: str) -> None:
    config = thread()
    async with DjangoSaver(using=alias) as strict, DjangoSaver(using=alias, allow=[Own]) as knowing:
        await put(knowing, config, checkpoint(own=Own(1)))
        assert (await knowing.aget_tuple(config)).checkpoint["channel_values"]["own"] == Own(1)
        assert (await strict.aget_tuple(config)).checkpoint["channel_values"]["own"] == {"n": 1}
        clone = strict.with_allowlist([(Own.__module__, "Own")])
        assert (await clone.aget_tuple(config)).checkpoint["channel_values"]["own"] == Own(1)
        assert clone._access is strict._access


async def test_a_model_makes_its_own_fields_again(alias: str) -> None:
    config = thread()
    async with DjangoSaver(using=alias, allow=[Painted]) as saver:
        await put(saver, config, checkpoint(painted=Painted(colour=Colour.RED)))
        assert (await saver.aget_tuple(config)).checkpoint["channel_values"]["painted"].colour is Colour.RED
        with pytest.raises(InvalidValue, match=r"allow=\[Colour\]"):
            await put(saver, config, checkpoint(painted=Colour.RED))


@pytest.mark.parametrize(
    ("value", "allow", "remedy"),
    [
        (Own(1), [], r"own_types\.Own would come back as its plain fields: allow it by DjangoSaver\(allow=\[Own\]\)"),
        ([{"deep": Holder(Own(1))}], [Holder], r"allow=\[Own\]"),
        (Interrupt(value=Own(1), id="i"), [], r"allow=\[Own\]"),
        (Holder.Inner(1), [Holder.Inner], "define it at the top of its module"),
        (Moment(2026, 1, 1), [Moment], "keep a datetime"),
    ],
)
async def test_a_value_that_would_come_back_as_another_is_refused_with_its_channel(
    alias: str, value: Any, allow: list[type], remedy: str
) -> None:
    config = thread()
    async with DjangoSaver(using=alias, allow=allow) as saver:
        stored = await put(saver, config, checkpoint(own=1))
        with pytest.raises(InvalidValue, match=f"channel 'own': .*{remedy}"):
            await put(saver, stored, checkpoint(own=value))
        with pytest.raises(InvalidValue, match=f"channel 'own': .*{remedy}"):
            await saver.aput_writes(stored, [("own", value)], "task")
        found = await saver.aget_tuple(config)
        assert (found.config, found.pending_writes) == (stored, [])


def test_a_serializer_that_unpickles_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="pickle"):
        DjangoSaver(serde=JsonPlusSerializer(pickle_fallback=True))


def test_a_project_without_the_app_is_told_what_to_add(settings: Any) -> None:
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "checkpoints.langgraph"]
    with pytest.raises(InvalidConfig, match=r"checkpoints\.langgraph"):
        DjangoSaver()


@pytest.mark.parametrize(
    ("current", "following"), [(None, 1), (3, 4), ("0003.0700", "0004.0700"), ("09", "10"), (1.0, 2.0)]
)
def test_versions_go_on_as_another_saver_began_them(current: Any, following: Any) -> None:
    assert DjangoSaver().get_next_version(current, None) == following


async def test_threads_are_no_runs(alias: str, saver: Any) -> None:
    before = await in_orm(alias, Run.objects.using(alias).count)
    await chain(saver, thread(), 2, big=BIG)
    assert await in_orm(alias, Run.objects.using(alias).count) == before

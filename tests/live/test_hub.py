from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DatabaseError, connection

from tests.live.world import Watching, append_events
from wfdash import pubsub
from wfdash.web.live import hub as hub_module
from wfdash.web.live.database import Head
from wfdash.web.live.feeds import TextPiece
from wfdash.web.live.hub import PendingUpdates, PubSubBridge, get_hub


async def test_bells_of_many_threads_come_as_a_few_deliveries() -> None:
    posts: list[PendingUpdates] = []
    bridge = PubSubBridge({"seen"}, lists=lambda: True, deliver=posts.append)
    with ThreadPoolExecutor(8) as threads:
        for seq in range(1, 1_001):
            threads.submit(pubsub.runs_changed.publish, "seen", seq)
            threads.submit(pubsub.runs_changed.publish, "unseen", seq)
            threads.submit(pubsub.text_streamed.publish, "seen", "write", ".")
            threads.submit(pubsub.inbox_changed.publish, "expense")
    await asyncio.sleep(0)
    assert len(posts) == 1
    assert posts[0].seqs == {"seen": 1_000}
    assert posts[0].texts == {("seen", "write"): TextPiece(step="write", text="." * 1_000)}
    assert posts[0].runs == {"seen", "unseen"}
    assert posts[0].inboxes == {"expense"}
    bridge.close()
    pubsub.runs_changed.publish("seen", 2_000)
    await asyncio.sleep(0)
    assert len(posts) == 1


async def test_a_bell_for_no_one_is_not_even_delivered() -> None:
    posts: list[PendingUpdates] = []
    bridge = PubSubBridge(set(), lists=lambda: False, deliver=posts.append)
    pubsub.runs_changed.publish("run", 1)
    pubsub.text_streamed.publish("run", "write", "text")
    pubsub.inbox_changed.publish("expense")
    await asyncio.sleep(0)
    bridge.close()
    assert not posts


async def test_a_failing_poll_is_tried_again(make_hub, db, run, cookie, monkeypatch, caplog) -> None:
    viewer = Watching(make_hub(poll_every=0.02), run, cookie)
    await viewer.connect()
    await viewer.caught_up()
    with monkeypatch.context() as broken:

        def fail(runs: list[str]) -> dict[str, Head]:
            raise DatabaseError("the database is away")

        broken.setattr(hub_module, "read_heads", fail)
        await db.call(append_events, run)
        assert await viewer.socket.receive_nothing(timeout=0.2)
    await viewer.until(1)
    assert "poll for lost bells failed" in caplog.text
    await viewer.hang_up()


async def test_a_read_that_fails_is_followed_by_one_on_a_new_connection(make_hub, run) -> None:
    reader = make_hub(reader_threads=1).reader

    def name() -> int:
        connection.ensure_connection()
        return id(connection.connection)

    def fail() -> None:
        raise DatabaseError("broken")

    first = await reader.call(name)
    assert await reader.call(name) == first
    with pytest.raises(DatabaseError):
        await reader.call(fail)
    assert await reader.call(lambda: connection.connection is None)


def test_there_is_one_hub_per_loop() -> None:
    async def twice() -> tuple[object, object]:
        return get_hub(), get_hub()

    first, again = asyncio.run(twice())
    other, _ = asyncio.run(twice())
    assert first is again
    assert first is not other


async def test_the_sockets_of_all_people_are_counted() -> None:
    hub = get_hub()
    before = hub_module.count_sockets()
    assert hub.admit("ana")
    assert hub.admit("ana")
    assert hub.admit("ben")
    hub.dismiss("ana")
    assert hub_module.count_sockets() == hub.admissions.total == before + 2
    hub.dismiss("ana")
    hub.dismiss("ben")
    await hub.close()

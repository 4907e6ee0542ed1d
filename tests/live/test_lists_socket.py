from __future__ import annotations

import json
import time

from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Grant, Notice
from tests.live.world import append_events, handshake, make_person, make_run, open_socket, sign_in
from wfdash import pubsub
from wfdash.web.live.hub import Hub


async def changed(socket: WebsocketCommunicator) -> list[str]:
    message = json.loads(await socket.receive_from(timeout=60))
    assert message.keys() == {"type", "what"}
    assert message["type"] == "changed"
    return message["what"]


async def watching(hub: Hub, cookie: str) -> WebsocketCommunicator:
    """Open the lists and take the first message, which says that all may have changed."""
    socket = open_socket(hub, "/live/lists/", handshake(cookie))
    assert await socket.connect() == (True, None)
    assert await changed(socket) == ["inbox", "runs"]
    return socket


async def test_a_run_that_moves_changes_the_runs(make_hub, db, run, cookie) -> None:
    socket = await watching(make_hub(poll_every=1000), cookie)
    pubsub.runs_changed.publish(run, await db.call(append_events, run))
    assert await changed(socket) == ["runs"]


async def test_a_request_changes_the_inbox(make_hub, run, cookie) -> None:
    socket = await watching(make_hub(poll_every=1000), cookie)
    pubsub.inbox_changed.publish("expense")
    assert await changed(socket) == ["inbox"]


async def test_lost_bells_are_found_by_the_poll(make_hub, db, run, cookie) -> None:
    socket = await watching(make_hub(poll_every=0.05, lists_every=0.01), cookie)
    await db.call(append_events, run)
    assert await changed(socket) == ["runs"]
    await db.call(lambda: append_events(run, kind="request.opened"))
    assert await changed(socket) == ["inbox", "runs"]
    await db.call(append_events, run, 250)
    assert await changed(socket) == ["inbox", "runs"]
    assert await socket.receive_nothing(timeout=0.2)


async def test_no_one_hears_of_workflows_they_may_not_see(make_hub, db, run, cookie) -> None:
    other = await db.call(lambda: sign_in(make_person("olga", "reviewer", "other")))
    hub = make_hub(poll_every=0.05, lists_every=0.01)
    socket = await watching(hub, other)
    pubsub.inbox_changed.publish("expense")
    pubsub.runs_changed.publish(run, await db.call(append_events, run))
    assert await socket.receive_nothing(timeout=0.2)
    theirs = await db.call(make_run, "other")
    await db.call(append_events, theirs)
    assert await changed(socket) == ["runs"]


async def test_many_changes_are_told_at_most_twice_a_second(make_hub, db, run, cookie) -> None:
    socket = await watching(make_hub(poll_every=1000, lists_every=0.2), cookie)
    began = time.monotonic()
    for seq in range(500):
        pubsub.runs_changed.publish(run, seq)
        pubsub.inbox_changed.publish("expense")
        await db.call(time.sleep, 0.001)
    await changed(socket)
    told = 1
    while not await socket.receive_nothing(timeout=0.3):
        await changed(socket)
        told += 1
    assert told <= (time.monotonic() - began) / 0.2 + 1


async def test_anyone_who_may_see_nothing_is_turned_away(make_hub, db, run) -> None:
    no_one = await db.call(lambda: sign_in(make_person("noah")))
    for cookie, code in (no_one, 4403), ("", 4401):
        socket = open_socket(make_hub(), "/live/lists/", handshake(cookie))
        assert await socket.connect() == (True, None)
        assert (await socket.receive_output())["code"] == code
        await socket.wait()


async def test_a_withdrawn_right_ends_the_socket(make_hub, db, run, cookie) -> None:
    socket = await watching(make_hub(recheck_every=0.05), cookie)
    await db.call(lambda: Grant.objects.all().delete())
    assert (await socket.receive_output(timeout=60))["code"] == 4403
    await socket.wait()


async def test_what_people_do_to_a_request_is_told_at_once_and_by_name(make_hub, db, run, cookie) -> None:
    socket = await watching(make_hub(poll_every=1000, lists_every=1000), cookie)
    pubsub.requests_changed.publish("expense", "people", "r1")
    assert await changed(socket) == ["people:r1"]
    pubsub.requests_changed.publish("expense", "request", "r1")
    assert await changed(socket) == ["inbox", "request:r1"]


async def test_a_batch_is_told_as_a_whole(make_hub, db, run, cookie) -> None:
    hub = make_hub(poll_every=1000, lists_every=1000)
    socket = await watching(hub, cookie)
    hub.lists.notify_at_once([(f"request:{n}", "expense") for n in range(100)])
    assert await changed(socket) == ["inbox", "request:*"]


async def test_no_one_hears_of_requests_they_may_not_see(make_hub, db, run, cookie) -> None:
    other = await db.call(lambda: sign_in(make_person("olga", "reviewer", "other")))
    socket = await watching(make_hub(poll_every=1000), other)
    pubsub.requests_changed.publish("expense", "request", "r1")
    assert await socket.receive_nothing(timeout=0.2)


def tell(name: str) -> int:
    """Write a notice for a person; returns the person's key."""
    user = User.objects.get(username=name)
    at = timezone.now()
    Notice.objects.create(id=ids.new_token(), user=user, kind="asked", channel="browser", created=at, due=at, sent=at)
    return user.pk


async def test_a_notice_is_told_to_its_person_alone(make_hub, db, run, cookie) -> None:
    other = await db.call(lambda: sign_in(make_person("olga", "admin")))
    hub = make_hub(poll_every=1000)
    mine, hers = await watching(hub, cookie), await watching(hub, other)
    pubsub.notifications_changed.publish(await db.call(tell, "olga"))
    assert await changed(hers) == ["notices"]
    assert await mine.receive_nothing(timeout=0.2)


async def test_a_notice_whose_bell_was_lost_is_found_by_the_poll(make_hub, db, run, cookie) -> None:
    hers = await db.call(lambda: sign_in(make_person("olga", "admin")))
    socket = await watching(make_hub(poll_every=0.05, lists_every=0.01), hers)
    await db.call(tell, "olga")
    assert await changed(socket) == ["notices"]
    assert await socket.receive_nothing(timeout=0.2)

"""The event stream of a run, through the whole of Django, in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.models import Event, Grant, Run
from tests.live.streams.streaming import Streaming
from tests.live.world import append_events, end_run, make_person, sign_in, sign_out
from wfdash import pubsub
from wfdash.web import http
from wfdash.web.live import hub as hub_module
from wfdash.web.live import streams as stream_module
from wfdash.web.live.database import Limits
from wfdash.web.live.hub import Hub, process_admissions

NEVER = 1000.0


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch, make_hub) -> Callable[..., None]:
    """Let a test set limits before its first stream: ``limits(heartbeat=0.1)``."""

    def use(**given: float) -> None:
        hubs: list[Hub] = []

        def get_hub() -> Hub:
            hubs.extend([] if hubs else [make_hub(**given)])
            return hubs[0]

        monkeypatch.setattr(stream_module, "get_hub", get_hub)

    use()
    return use


def address(run: str, query: str = "") -> str:
    return f"/api/v1/runs/{run}/events{query}"


async def test_replays_then_follows_then_ends_with_the_run(handler, limits, db, run, cookie) -> None:
    limits(poll_every=NEVER)
    await db.call(append_events, run, 250)
    async with Streaming(handler, address(run, "?after=10"), cookie) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["cache-control"] == "no-store"
        assert await stream.take() == {"retry": "1000"}
        await stream.until(250, after=10)
        for seq in range(251, 261):
            pubsub.runs_changed.publish(run, await db.call(append_events, run))
            await stream.until(seq, after=seq - 1)
        pubsub.runs_changed.publish(run, await db.call(end_run, run))
        await stream.until(261, after=260)
        rest = [message async for message in stream.rest()]
        assert rest == [{"event": "end", "data": {"seq": 261, "status": "completed"}}]
    assert process_admissions().total == 0


async def test_the_stream_has_the_records_of_the_page(handler, db, run, cookie) -> None:
    await db.call(append_events, run, kind="step.finished", data={"output": {"ä": "two\nlines"}, "ms": 3})
    await db.call(end_run, run)
    async with Streaming(handler, address(run), cookie, accept="application/json") as page:
        found = json.loads(await page.body())
    assert (found["next"], found["ended"]) == (2, True)
    async with Streaming(handler, address(run), cookie) as stream:
        messages = await stream.until(2)
    assert [message["data"] for message in messages] == found["items"]
    assert [message["event"] for message in messages] == ["step.finished", "run.completed"]


def test_a_page_says_where_the_next_begins_and_whether_there_will_be_one(client: Client, run, cookie) -> None:
    append_events(run, 5)
    client.force_login(User.objects.get(username="vera"))
    first = client.get(address(run, "?limit=3")).json()
    assert ([event["seq"] for event in first["items"]], first["next"], first["ended"]) == ([1, 2, 3], 3, False)
    assert client.get(address(run, "?after=5")).json() == {"items": [], "next": 5, "ended": False}
    end_run(run)
    assert client.get(address(run, "?after=4&limit=1")).json()["ended"] is False
    assert client.get(address(run, "?after=5")).json()["ended"] is True
    assert client.get(address(run, "?after=6")).json() == {"items": [], "next": 6, "ended": True}
    assert client.get(address(run, "?after=7")).status_code == 422
    Run.objects.update(phase="ready")  # someone retries it
    assert client.get(address(run, "?after=6")).json()["ended"] is False


async def test_last_event_id_counts_more_than_the_address(handler, db, run, cookie) -> None:
    await db.call(append_events, run, 9)
    async with Streaming(handler, address(run, "?after=2"), cookie, last_event_id="7") as stream:
        await stream.until(9, after=7)


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("?after=-1", {}, 422),
        ("?after=x", {}, 422),
        ("?after=99", {}, 422),
        ("", {"last_event_id": "99"}, 422),
        ("", {"last_event_id": "one"}, 422),
        ("", {"cookie": ""}, 401),
        ("", {"cookie": "sessionid=forged"}, 401),
    ],
)
async def test_what_cannot_be_followed_is_refused_with_a_problem(
    handler, db, run, cookie, query: str, headers: dict[str, str], status: int
) -> None:
    async with Streaming(handler, address(run, query), **{"cookie": cookie} | headers) as stream:
        assert (stream.status, json.loads(await stream.body())["status"]) == (status, status)
        assert stream.headers["content-type"] == "application/problem+json"


async def test_a_stranger_and_an_unknown_run_look_the_same(handler, db, run, cookie) -> None:
    elsewhere = await db.call(lambda: sign_in(make_person("sam", "operator", "other")))
    bodies = []
    for who, which in (elsewhere, run), (cookie, "no-such-run"):
        async with Streaming(handler, address(which), who) as stream:
            assert stream.status == 404
            bodies.append(await stream.body())
    assert bodies[0] == bodies[1]


async def test_a_reviewer_gets_neither_values_nor_text(handler, limits, db, run, cookie) -> None:
    limits(heartbeat=0.1, stream_every=0.01)
    reviewer = await db.call(lambda: sign_in(make_person("rosa", "reviewer")))
    await db.call(append_events, run, kind="step.finished", data={"output": "secret", "ms": 3})
    async with Streaming(handler, address(run), reviewer) as stream:
        (message,) = await stream.until(1)
        assert message["data"]["data"] == {"ms": 3}
        pubsub.streamed_text.add(run, "write", "secret")
        assert await stream.take() == {":": ""}
        pubsub.streamed_text.forget(run)


async def test_streamed_text_has_a_beginning_and_moves_no_cursor(handler, limits, db, run, cookie) -> None:
    limits(stream_every=0.01)
    pubsub.streamed_text.add(run, "write", "It was ")
    async with Streaming(handler, address(run), cookie) as stream:
        await stream.take()
        assert await stream.take() == {"event": "stream", "data": {"step": "write", "text": "It was ", "begin": True}}
        pubsub.streamed_text.add(run, "write", "dark")
        assert await stream.take() == {"event": "stream", "data": {"step": "write", "text": "dark"}}
    pubsub.streamed_text.forget(run)


async def test_a_silent_stream_gives_heartbeats(handler, limits, db, run, cookie) -> None:
    limits(heartbeat=0.05)
    async with Streaming(handler, address(run), cookie) as stream:
        assert [await stream.take() for _ in range(4)][1:] == [{":": ""}] * 3


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (sign_out, "unauthenticated"),
        (lambda cookie: Grant.objects.get().delete(), "not_allowed"),
        (lambda cookie: User.objects.filter(username="vera").update(is_active=False), "unauthenticated"),
    ],
)
async def test_who_loses_the_right_loses_the_stream(handler, limits, db, run, cookie, happens, code) -> None:
    limits(recheck_every=0.1)
    async with Streaming(handler, address(run), cookie) as stream:
        await stream.take()
        await db.call(happens, cookie)
        message = await stream.take()
        assert (message["event"], message["data"]["code"]) == ("problem", code)
        assert await stream.take() is None


async def test_streams_and_sockets_of_one_person_are_bounded(handler, db, run, cookie) -> None:
    most = Limits().sockets_per_person
    person = (await db.call(User.objects.get)).pk
    for _ in range(most):
        assert process_admissions().admit(person)
    async with Streaming(handler, address(run), cookie) as stream:
        assert (stream.status, stream.headers["retry-after"]) == (429, "5")
    for _ in range(most):
        process_admissions().dismiss(person)
    async with Streaming(handler, address(run), cookie) as stream:
        assert stream.status == 200
        assert hub_module.count_sockets() == 1
    assert hub_module.count_sockets() == 0


async def test_what_a_slow_client_does_not_take_is_not_read(handler, limits, db, run, cookie) -> None:
    limits(poll_every=0.05)
    await db.call(append_events, run, 2_000, data={"text": "x" * 1_000})
    async with Streaming(handler, address(run), cookie) as stream:
        await stream.take()
        stream.takes.clear()
        await stream.until(100)
        await asyncio.sleep(0.2)
        assert stream.quiet()
        stream.takes.set()
        await stream.until(2_000, after=100)


async def test_a_client_that_takes_nothing_for_too_long_is_let_go(handler, db, run, cookie, monkeypatch) -> None:
    monkeypatch.setattr(http, "TAKE_SECONDS", 0.1)
    async with Streaming(handler, address(run), cookie) as stream:
        await stream.take()
        stream.takes.clear()
        await db.call(append_events, run)
        await asyncio.wait_for(stream.serving, 10)
    assert process_admissions().total == 0


async def test_many_programs_cost_one_read(handler, limits, db, run, cookie) -> None:
    limits(poll_every=NEVER)
    streams = [Streaming(handler, address(run), cookie) for _ in range(15)]
    for stream in streams:
        await stream.__aenter__()
    hub = stream_module.get_hub()
    while len(hub.feeds.get(run).watchers if run in hub.feeds else ()) < 15:
        await asyncio.sleep(0.01)
    before = hub.feeds[run].loads
    pubsub.runs_changed.publish(run, await db.call(append_events, run, 40))
    for stream in streams:
        await stream.until(40)
    assert hub.feeds[run].loads == before + 1
    for stream in streams:
        await stream.__aexit__()
    assert not hub.feeds


async def test_events_that_are_gone_are_said_to_be(handler, db, run, cookie) -> None:
    await db.call(append_events, run, 10)
    await db.call(lambda: Event.objects.filter(run_id=run, seq__lte=4).delete())
    async with Streaming(handler, address(run), cookie) as stream:
        await stream.take()
        assert await stream.take() == {"event": "snapshot", "data": {"seq": 4}}
        await stream.until(10, after=4)


def test_without_asgi_there_is_no_stream(client: Client, run, cookie) -> None:
    client.force_login(User.objects.get(username="vera"))
    response = client.get(address(run), headers={"accept": "text/event-stream"})
    assert (response.status_code, response.json()["code"]) == (501, "unsupported")

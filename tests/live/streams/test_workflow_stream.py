"""The events of a workflow's runs, as pages and as a stream, through the whole of Django, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.models import Event, Grant, Run
from tests.live.streams.streaming import Message, Streaming
from tests.live.world import append_events, make_person, make_run, sign_in
from wfdash import pubsub
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token, revoke_token
from wfdash.queries import history
from wfdash.web.live import streams as stream_module
from wfdash.web.live.hub import Hub, process_admissions

ADDRESS = "/api/v1/workflows/expense/events"
NEVER = 1000.0


@pytest.fixture(autouse=True)
def hubs(monkeypatch: pytest.MonkeyPatch, make_hub) -> Callable[..., list[Hub]]:
    """Let a test set limits before its first stream: ``hubs(heartbeat=0.1)``. Returns the hub, once there is one."""
    made: list[Hub] = []

    def use(**given: float) -> list[Hub]:
        def get_hub() -> Hub:
            made.extend([] if made else [make_hub(**given)])
            return made[0]

        monkeypatch.setattr(stream_module, "get_hub", get_hub)
        return made

    use()
    return use


@pytest.fixture
def client(client: Client, cookie: str) -> Client:
    client.force_login(User.objects.get(username="vera"))
    return client


def places(found: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(item["run"], item["seq"]) for item in found]


async def events(stream: Streaming, count: int) -> list[Message]:
    taken: list[Message] = []
    while len(taken) < count:
        message = await stream.take()
        assert message is not None
        if "data" in message:
            assert message["id"] == message["data"]["cursor"]
            assert message["event"] == message["data"]["kind"]
            taken.append(message)
    return taken


async def test_replays_then_follows_all_runs_of_the_workflow_and_no_others(handler, hubs, db, run, cookie) -> None:
    made = hubs(poll_every=NEVER)
    other, foreign = await db.call(make_run), await db.call(make_run, "another")
    for one in (run, foreign, other, run):
        await db.call(append_events, one, 2)
    async with Streaming(handler, ADDRESS, cookie) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        assert await stream.take() == {"retry": "1000"}
        first = await stream.take()
        assert first is not None
        assert set(first) == {":", "id"}
        found = [message["data"] for message in await events(stream, 6)]
        assert places(found) == [(run, 1), (run, 2), (other, 1), (other, 2), (run, 3), (run, 4)]
        for seq in range(3, 6):
            pubsub.runs_changed.publish(foreign, await db.call(append_events, foreign))
            pubsub.runs_changed.publish(other, await db.call(append_events, other))
            assert places([message["data"] for message in await events(stream, 1)]) == [(other, seq)]
        late = await db.call(make_run)
        pubsub.runs_changed.publish(late, await db.call(append_events, late))
        assert places([message["data"] for message in await events(stream, 1)]) == [(late, 1)]
    assert process_admissions().total == 0
    assert not made[0].workflows.watchers


async def test_the_stream_has_the_records_of_the_page_and_goes_on_behind_any_of_them(
    handler, db, run, cookie, client
) -> None:
    other = await db.call(make_run)
    await db.call(append_events, run, 2, kind="step.finished", data={"output": {"ä": "two\nlines"}, "ms": 3})
    await db.call(append_events, other, 2)
    page = await db.call(lambda: client.get(ADDRESS).json())
    assert (places(page["items"]), page["more"]) == ([(run, 1), (run, 2), (other, 1), (other, 2)], False)
    assert page["next"] == page["items"][-1]["cursor"]
    async with Streaming(handler, ADDRESS, cookie) as stream:
        assert [message["data"] for message in await events(stream, 4)] == page["items"]
    for n, item in enumerate(page["items"][:3], 1):
        async with Streaming(handler, ADDRESS + "?after=now", cookie, last_event_id=item["cursor"]) as stream:
            assert [message["data"] for message in await events(stream, 4 - n)] == page["items"][n:]


def test_pages_join_without_gap_or_double_and_look_at_so_many_ids_only(client: Client, run, monkeypatch) -> None:
    monkeypatch.setattr(history, "SCANNED_IDS", 3)
    monkeypatch.setattr(history, "SCAN_SECONDS", 0.0)
    foreign, other = make_run("another"), make_run()
    for one in (run, foreign, foreign, other, foreign, run):
        append_events(one, 2)
    Run.objects.filter(pk=foreign).first().delete()
    found, cursor, pages = [], "", 0
    while True:
        page = client.get(ADDRESS, {"after": cursor, "limit": 2}).json()
        assert len(page["items"]) <= 2
        assert page["next"] != cursor
        found, cursor, pages = found + page["items"], page["next"], pages + 1
        if not page["more"]:
            break
    assert places(found) == [(run, 1), (run, 2), (other, 1), (other, 2), (run, 3), (run, 4)]
    assert client.get(ADDRESS, {"after": cursor}).json() == {"items": [], "next": cursor, "more": False}


def test_now_is_behind_everything_that_has_happened(client: Client, run) -> None:
    append_events(run, 3)
    now = client.get(ADDRESS, {"after": "now"}).json()
    assert (now["items"], now["more"]) == ([], False)
    append_events(run, 1)
    assert places(client.get(ADDRESS, {"after": now["next"]}).json()["items"]) == [(run, 4)]


def test_a_cursor_outlives_the_runs_it_has_passed(client: Client, run) -> None:
    make_run()
    append_events(run, 3)
    cursor = client.get(ADDRESS).json()["next"]
    Run.objects.filter(pk=run).delete()
    assert client.get(ADDRESS, {"after": cursor}).json() == {"items": [], "next": cursor, "more": False}
    again = make_run()
    append_events(again, 1)
    assert places(client.get(ADDRESS, {"after": cursor}).json()["items"]) == [(again, 1)]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_cursor_of_something_else_is_refused_by_its_field(client: Client, run, accept: str) -> None:
    append_events(run, 1)
    make_run("another")
    theirs = client.get("/api/v1/workflows/another/events").json()["next"]
    beyond = history.cursor_at("expense", 2**62)
    huge = history.cursor_at("expense", 2**64 - 1)
    for cursor, words in {
        theirs: "another workflow",
        beyond: "backup",
        huge: "backup",
        "17": "Not a cursor",
        "é": "Not a cursor",
        "\0": "Not a cursor",
        "x" * 41: "",
    }.items():
        found = client.get(ADDRESS, {"after": cursor}, headers={"accept": accept})
        assert found.status_code == 422
        (error,) = found.json()["errors"]
        assert error["loc"][-1] == "after"
        assert words in error["msg"]
    found = client.get(ADDRESS, headers={"accept": "text/event-stream", "last-event-id": theirs})
    assert (found.status_code, found.json()["errors"][0]["loc"]) == (422, ["Last-Event-ID"])


def test_a_workflow_of_others_and_an_unknown_one_look_the_same(client: Client, run) -> None:
    append_events(run, 1)
    client.force_login(make_person("sam", "operator", "other"))
    unseen, unknown = client.get(ADDRESS), client.get("/api/v1/workflows/never/events")
    assert (unseen.status_code, unknown.status_code) == (404, 404)
    assert unseen.json()["detail"] == unknown.json()["detail"]


async def test_a_reviewer_gets_events_without_values(handler, db, run, cookie) -> None:
    reviewer = await db.call(lambda: sign_in(make_person("rosa", "reviewer", "expense")))
    await db.call(append_events, run, kind="step.finished", data={"output": "secret", "ms": 3})
    for who, data in (reviewer, {"ms": 3}), (cookie, {"output": "secret", "ms": 3}):
        async with Streaming(handler, ADDRESS, who) as stream:
            assert (await events(stream, 1))[0]["data"]["data"] == data
        async with Streaming(handler, ADDRESS, who, accept="application/json") as page:
            assert json.loads(await page.body())["items"][0]["data"] == data


async def test_a_silent_stream_moves_its_cursor_over_what_others_do(handler, hubs, db, run, cookie) -> None:
    hubs(heartbeat=0.05)
    foreign = await db.call(make_run, "another")
    async with Streaming(handler, ADDRESS, cookie) as stream:
        await stream.take()
        first = await stream.take()
        await db.call(append_events, foreign, 5)
        last = first
        while last == first:
            last = await stream.take()
        assert set(last) == {":", "id"}
    await db.call(append_events, run)
    async with Streaming(handler, ADDRESS, cookie, last_event_id=last["id"]) as stream:
        assert places([message["data"] for message in await events(stream, 1)]) == [(run, 1)]


async def test_streams_at_one_cursor_share_what_is_read(handler, hubs, db, run, cookie) -> None:
    made = hubs(poll_every=NEVER)
    streams = [Streaming(handler, ADDRESS, cookie) for _ in range(5)]
    for stream in streams:
        await stream.__aenter__()
        await stream.take()
        await stream.take()
    before = made[0].workflows.loads
    pubsub.runs_changed.publish(run, await db.call(append_events, run, 3))
    for stream in streams:
        await events(stream, 3)
    assert made[0].workflows.loads <= before + 2
    for stream in streams:
        await stream.__aexit__()


async def test_what_a_slow_client_does_not_take_is_not_read(handler, hubs, db, run, cookie) -> None:
    made = hubs(read_events=5)
    await db.call(append_events, run, 100)
    async with Streaming(handler, ADDRESS, cookie) as stream:
        stream.takes.clear()
        await stream.take()
        await db.call(append_events, run)
        assert made == [] or made[0].workflows.loads <= 1
        stream.takes.set()
        await events(stream, 101)
        assert made[0].workflows.loads >= 20


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda token: revoke_token(viewer_for(token.owner), token.pk), "unauthenticated"),
        (lambda token: Grant.objects.get(user=token.owner).delete(), "not_allowed"),
    ],
)
async def test_who_loses_the_right_loses_the_stream(handler, db, run, happens, code) -> None:
    new = await db.call(
        lambda: create_token(
            viewer_for(make_person("otto", "operator")), "watch", rights=("see",), workflows=("expense",)
        )
    )
    async with Streaming(handler, ADDRESS, authorization=f"Bearer {new.text}") as stream:
        await stream.take()
        await stream.take()
        await db.call(happens, new.token)
        message = await stream.take()
        assert (message["event"], message["data"]["code"]) == ("problem", code)
        assert await stream.take() is None


async def test_an_event_that_cannot_be_read_is_not_missing(handler, db, run, cookie, settings) -> None:
    await db.call(append_events, run, 2)
    await db.call(lambda: Event.objects.filter(seq=1).update(data={"encrypted": "broken"}))
    async with Streaming(handler, ADDRESS, cookie) as stream:
        assert places([message["data"] for message in await events(stream, 2)]) == [(run, 1), (run, 2)]

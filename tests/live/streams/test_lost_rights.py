"""Whatever a program has open ends when it may no longer see it: streams, JSON sockets, and requests that wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from django.utils import timezone

from checkpoints.models import Grant, Token
from tests.live.streams.streaming import Streaming
from tests.live.world import append_events, handshake, make_person, open_socket
from wfdash import pubsub
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token, revoke_token
from wfdash.web.api import long_poll
from wfdash.web.http import PagesHandler
from wfdash.web.live import streams as stream_module

STREAMS = ("/api/v1/runs/{run}/events", "/api/v1/workflows/expense/events")
SOCKETS = ("/live/runs/{run}/?format=json", "/live/lists/?format=json")


class Opened(NamedTuple):
    """What a program has open with one token."""

    token: Token
    run: str
    streams: list[Streaming]
    sockets: list[Any]
    waiting: asyncio.Task[dict[str, Any]]


@pytest_asyncio.fixture
async def opened(make_hub, db, run, handler, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opened]:
    """Open everything; rights are read again soon, also without a signal."""
    hub = make_hub(recheck_every=0.3, spread=0.0)
    monkeypatch.setattr(stream_module, "get_hub", lambda: hub)
    monkeypatch.setattr(long_poll, "LOOKS", (0.1,))
    monkeypatch.setattr(long_poll, "REST_SECONDS", 0.0)
    new = await db.call(make_token)
    bearer = f"Bearer {new.text}"
    sockets = [open_socket(hub, path.format(run=run), [*handshake(), authorization(bearer)]) for path in SOCKETS]
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(Streaming(handler, path.format(run=run), authorization=bearer))
            for path in STREAMS
        ]
        for one in streams:
            await one.take()
        for socket in sockets:
            assert await socket.connect(timeout=60) == (True, None)
            await socket.receive_from(timeout=60)
        waiting = asyncio.create_task(wait_for_run(handler, run, bearer))
        yield Opened(new.token, run, streams, sockets, waiting)
    for socket in sockets:
        await socket.disconnect(timeout=60)
    await waiting


def make_token() -> Any:
    person = make_person("otto", "operator", "expense")
    return create_token(viewer_for(person), "watch", rights=("see", "inspect"), workflows=("expense",))


def authorization(bearer: str) -> tuple[bytes, bytes]:
    return b"authorization", bearer.encode()


async def wait_for_run(handler: PagesHandler, run: str, bearer: str) -> dict[str, Any]:
    path = f"/api/v1/runs/{run}?wait=60"
    async with Streaming(handler, path, authorization=bearer, accept="application/json") as response:
        return json.loads(await response.body())


async def ended_with(stream: Streaming) -> dict[str, Any]:
    """Return the last message of a stream."""
    messages = [message async for message in stream.rest()]
    assert messages[-1]["event"] == "problem"
    return messages[-1]["data"]


async def closed_with(socket: Any) -> int:
    while (output := await socket.receive_output(timeout=60))["type"] != "websocket.close":
        pass
    return output["code"]


def expire(token: Token) -> None:
    Token.objects.filter(pk=token.pk).update(expires=timezone.now() - timedelta(seconds=1))


def deactivate(token: Token) -> None:
    token.owner.is_active = False
    token.owner.save()


def take_the_role(token: Token) -> None:
    Grant.objects.get(user=token.owner).delete()


def narrow(token: Token) -> None:
    Token.objects.filter(pk=token.pk).update(workflows=["another"])


@pytest.mark.parametrize(
    ("happens", "status", "code"),
    [
        (lambda token: revoke_token(viewer_for(token.owner), token.pk), 401, 4401),
        (expire, 401, 4401),
        (deactivate, 401, 4401),
        (take_the_role, 403, 4403),
        (narrow, 403, 4403),
    ],
    ids=["revoked", "expired", "deactivated", "without the role", "narrowed"],
)
async def test_all_of_it_ends_with_the_code_that_says_why(
    opened: Opened, db, happens: Callable[[Token], object], status: int, code: int
) -> None:
    await db.call(happens, opened.token)
    ends = await asyncio.gather(*map(ended_with, opened.streams))
    assert [one["status"] for one in ends] == [status, status]
    # A token of other workflows keeps the socket of the lists, which has nothing of them.
    closing = opened.sockets[:1] if happens is narrow else opened.sockets
    assert {await closed_with(socket) for socket in closing} == {code}
    assert (await opened.waiting)["status"] == (401 if status == 401 else 404)


async def test_who_may_no_longer_inspect_gets_what_follows_without_values(opened: Opened, db) -> None:
    await db.call(lambda: Token.objects.filter(pk=opened.token.pk).update(rights=["see"]))
    await asyncio.sleep(0.5)  # twice as long as rights are trusted
    seq = await db.call(lambda: append_events(opened.run, kind="step.finished", data={"output": "secret", "ms": 3}))
    pubsub.runs_changed.publish(opened.run, seq)
    for stream in opened.streams:
        while "data" not in (message := await stream.take()):
            pass
        assert message["data"]["data"] == {"ms": 3}
    message = json.loads(await opened.sockets[0].receive_from(timeout=60))
    assert message["events"][0]["data"] == {"ms": 3}
    await db.call(lambda: revoke_token(viewer_for(opened.token.owner), opened.token.pk))

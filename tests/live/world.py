"""What the tests of the live part share: rows, people, sockets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.test import Client

from checkpoints import ids
from checkpoints.models import Event, Grant, Run
from tests.live.feeds.schemas import check_socket
from wfdash.access.signin.sessions import SessionStore
from wfdash.web.live.hub import Hub
from wfdash.web.live.sockets import urlpatterns

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = "localhost:8000"
ORIGIN = f"http://{HOST}"


def make_run(workflow: str = "expense") -> str:
    run = ids.new_run_id()
    Run.objects.create(id=run, family=run, workflow=workflow, created=NOW, updated=NOW)
    return run


def end_run(run: str, phase: str = "completed") -> int:
    """Commit the run's last event and its end, and return the last seq. Rings nothing."""
    with transaction.atomic():
        Run.objects.filter(id=run).update(phase=phase)
        return append_events(run, kind=f"run.{phase}")


def append_events(run: str, count: int = 1, *, kind: str = "progress", data: dict[str, Any] | None = None) -> int:
    """Commit ``count`` more events the way the journal does, and return the run's last seq. Rings nothing."""
    with transaction.atomic():
        Run.objects.filter(id=run).update(seq=F("seq") + count)
        last = Run.objects.values_list("seq", flat=True).get(id=run)
        seqs = range(last - count + 1, last + 1)
        Event.objects.bulk_create(Event(run_id=run, seq=seq, kind=kind, data=data or {}, at=NOW) for seq in seqs)
    return last


def make_person(name: str, role: str | None = None, workflow: str = "*") -> User:
    user, _ = User.objects.get_or_create(username=name)
    if role:
        Grant.objects.create(user=user, role=role, workflow=workflow)
    return user


def sign_in(user: User) -> str:
    """Return the Cookie header of a session of this person."""
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def sign_out(cookie: str) -> None:
    SessionStore(cookie.partition("=")[2]).delete()


def handshake(cookie: str = "", *, origin: str | None = ORIGIN, host: str = HOST) -> list[tuple[bytes, bytes]]:
    pairs = {"host": host, "origin": origin, "cookie": cookie or None}
    return [(name.encode(), value.encode()) for name, value in pairs.items() if value is not None]


OPENED: list[WebsocketCommunicator] = []
"""The sockets of a test, which hang up with its hubs."""


def open_socket(hub: Hub, path: str, headers: Sequence[tuple[bytes, bytes]]) -> WebsocketCommunicator:
    OPENED.append(WebsocketCommunicator(URLRouter(urlpatterns(lambda: hub)), path, headers=list(headers)))
    return OPENED[-1]


class Watching:
    """A well-behaved client of one run: keeps its cursor over reconnects and refuses gaps and doubles."""

    def __init__(self, hub: Hub, run: str, cookie: str, *, after: int = 0, style: str = "html") -> None:
        self.hub, self.run, self.cookie, self.last, self.style = hub, run, cookie, after, style
        self.seen: list[int] = []
        self.html: list[str] = []
        self.records: list[dict[str, Any]] = []
        self.snapshots: list[int] = []
        self.texts: list[str] = []

    async def connect(self) -> Watching:
        path = f"/live/runs/{self.run}/?after={self.last}&format={self.style}"
        self.socket = open_socket(self.hub, path, handshake(self.cookie))
        assert await self.socket.connect(timeout=60) == (True, None)
        return self

    async def follow(self) -> Watching:
        """Connect, and take what there is."""
        await self.connect()
        await self.caught_up()
        return self

    async def take(self, *, ack: bool = True, timeout: float = 5) -> dict[str, Any]:
        """Receive one message and account for it."""
        message = json.loads(await self.socket.receive_from(timeout=timeout))
        if self.style == "json":
            check_socket(f"/live/runs/{self.run}/", message)
        if message["type"] == "events":
            self._count(event["seq"] for event in message["events"])
            self.html += [event["html"] for event in message["events"] if self.style == "html"]
            self.records += [event for event in message["events"] if self.style == "json"]
            assert message["last"] == self.last
            if ack:
                await self.ack(self.last)
        elif message["type"] == "snapshot":
            self.snapshots.append(message["seq"])
            self.last = message["seq"]
        elif message["type"] == "stream":
            self.texts.append(message["text"])
        return message

    def _count(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            assert seq == self.last + 1
            self.last = seq
            self.seen.append(seq)

    async def until(self, seq: int) -> None:
        while self.last < seq:
            await self.take()

    async def caught_up(self) -> None:
        while (await self.take())["type"] != "caught_up":
            pass

    async def ack(self, seq: int) -> None:
        await self.socket.send_to(text_data=json.dumps({"ack": seq}))

    async def closed(self, timeout: float = 5) -> int:
        """Wait until the server closes and return the code."""
        while (output := await self.socket.receive_output(timeout=timeout))["type"] != "websocket.close":
            pass
        await self.socket.wait(timeout=timeout)
        return output["code"]

    async def hang_up(self) -> None:
        await self.socket.disconnect(timeout=60)

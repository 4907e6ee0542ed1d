"""The ASGI application of a project: what goes to the dashboard, and when the worker starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.exceptions import ImproperlyConfigured
from django.urls import include, path

from wfdash import asgi
from wfdash import urls as dashboard_urls

urlpatterns = [path("people/", include("wfdash.urls"))]


class Answering:
    """An application that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append((scope["type"], scope.get("path_remaining", scope["path"])))


@pytest.fixture
def dashboard(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Answering:
    """What stands for the dashboard, below ``/people/``."""
    settings.ROOT_URLCONF = __name__
    answering = Answering()
    monkeypatch.setattr(asgi, "application", answering)
    monkeypatch.setattr(asgi, "refuse_other_keys", lambda: None)
    return answering


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened to the worker."""
    happened: list[str] = []
    monkeypatch.setattr(asgi, "try_start_worker", lambda: happened.append("start"))
    monkeypatch.setattr(asgi, "start_worker", lambda: happened.append("start"))
    monkeypatch.setattr(asgi, "stop_worker", lambda: happened.append("stop"))
    return happened


async def connect(application: Any, kind: str, path: str, **more: str) -> ApplicationCommunicator:
    connection = ApplicationCommunicator(application, {"type": kind, "path": path, **more})
    await connection.send_input({"type": "websocket.connect"})
    await connection.wait()
    return connection


async def test_what_is_below_the_prefix_is_the_dashboard_s(dashboard: Answering, worker: list[str]) -> None:
    pages, sockets = Answering(), Answering()
    application = asgi.ProjectApplication(pages, sockets)
    for kind in ("http", "websocket"):
        for address in ("/people/live/lists/", "/peoples/", "/"):
            await connect(application, kind, address)
        await connect(application, kind, "/site/people/live/lists/", root_path="/site")
    assert dashboard.asked == [
        ("http", "/people/live/lists/"),
        ("http", "/site/people/live/lists/"),
        ("websocket", "live/lists/"),
        ("websocket", "live/lists/"),
    ]
    assert pages.asked == [("http", "/peoples/"), ("http", "/")]
    assert sockets.asked == [("websocket", "/peoples/"), ("websocket", "/")]


async def test_the_dashboard_is_not_served_without_the_keys_of_its_content(
    dashboard: Answering, worker: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> None:
        raise ImproperlyConfigured("The content of this database is encrypted with key 1a2b3c4d")

    monkeypatch.setattr(asgi, "refuse_other_keys", refuse)
    pages = Answering()
    application = asgi.ProjectApplication(pages, None)
    for _ in range(2):
        connection = await connect(application, "http", "/people/")
        assert (await connection.receive_output())["status"] == 503
    await connect(application, "http", "/shop/")
    assert (dashboard.asked, pages.asked) == ([], [("http", "/shop/")])
    assert caplog.text.count("1a2b3c4d") == 1


async def test_a_socket_of_neither_is_refused(dashboard: Answering, worker: list[str]) -> None:
    connection = await connect(asgi.with_dashboard(Answering()), "websocket", "/shop/")
    assert await connection.receive_output() == {"type": "websocket.close", "code": 4404}


async def test_the_worker_starts_and_stops_with_a_server_that_says_so(dashboard: Answering, worker: list[str]) -> None:
    application = asgi.ProjectApplication(Answering(), None)
    server = ApplicationCommunicator(application, {"type": "lifespan"})
    await server.send_input({"type": "lifespan.startup"})
    assert await server.receive_output() == {"type": "lifespan.startup.complete"}
    await connect(application, "http", "/people/")
    assert worker == ["start"]
    await server.send_input({"type": "lifespan.shutdown"})
    assert await server.receive_output() == {"type": "lifespan.shutdown.complete"}
    assert worker == ["start", "stop"]


async def test_a_server_does_not_start_where_its_worker_cannot(
    dashboard: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise PermissionError("wfdash-data cannot be written")

    monkeypatch.setattr(asgi, "start_worker", fail)
    server = ApplicationCommunicator(asgi.ProjectApplication(Answering(), None), {"type": "lifespan"})
    await server.send_input({"type": "lifespan.startup"})
    said = {"type": "lifespan.startup.failed", "message": "wfdash-data cannot be written"}
    assert await server.receive_output() == said


async def test_the_first_connection_starts_the_worker_of_a_server_that_says_nothing(
    dashboard: Answering, worker: list[str]
) -> None:
    application = asgi.ProjectApplication(Answering(), None)
    await asyncio.gather(*(connect(application, "http", "/") for _ in range(3)))
    async with asyncio.timeout(5):
        while not worker:
            await asyncio.sleep(0)
    assert worker == ["start"]


def test_no_view_is_in_a_transaction_that_a_project_gives_to_each_request() -> None:
    found = [pattern.callback for pattern in patterns_in(dashboard_urls.urlpatterns)]
    assert len(found) > 100
    # Databases that other tests add later are none of the project's.
    assert [view for view in found if "default" not in view._non_atomic_requests] == []


def patterns_in(patterns: list[Any]) -> Iterator[Any]:
    for pattern in patterns:
        yield from patterns_in(pattern.url_patterns) if hasattr(pattern, "url_patterns") else [pattern]

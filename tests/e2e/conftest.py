"""People in browsers: each has a context of their own, and none may see an error in the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Response, WebError, expect

from tests.e2e.chromium import Chromium
from tests.e2e.contexts import Contexts
from tests.e2e.desk import add_people
from tests.e2e.server import Server, serving

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--process-per-site",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A page lives for seconds: to compile its scripts for speed, and axe's above all, takes longer than it spares.
    "--js-flags=--no-opt",
]
STORY_SECONDS = 240
"""A story is long, and takes several times as long on a machine that others use."""
OpenPage = Callable[[str], Page]
OpenContext = Callable[..., BrowserContext]
OUTAGE = ("ERR_CONNECTION", "WebSocket", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "ERR_SOCKET", "Failed to fetch")
"""What a browser says in its console of a server that is gone."""

expect.set_options(timeout=30_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that none can be forgotten."""
    folder = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(STORY_SECONDS))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    """One Chromium for this folder: its event loop must be gone before other tests start theirs."""
    chromium = Chromium(FLAGS)
    yield chromium
    chromium.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The demo, up and seeded: one for the stories of a file, which find what the others left behind."""
    with serving(Server(tmp_path_factory.mktemp("demo") / "data", demo=True, template=sqlite_template)) as server:
        yield server


@pytest.fixture(scope="package")
def shared_demo(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The demo for several files: whose stories look at what they started themselves, and at nothing else."""
    with serving(Server(tmp_path_factory.mktemp("shared") / "data", demo=True, template=sqlite_template)) as server:
        yield server


@pytest.fixture(scope="package")
def shared_gate(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The gate alone, with people, for several files; an answer may be taken back for a few seconds."""
    data, file = tmp_path_factory.mktemp("gate") / "data", Path(__file__).with_name("gates.py")
    with serving(Server(data, files=[file], template=sqlite_template, undo=4)) as server:
        add_people(server)
        yield server


class Troubles:
    """What no page may show: console errors, scripts that throw, answers of 500 and above."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.expected: list[str] = []

    def watch(self, context: BrowserContext) -> None:
        """Listen to every page of a context."""
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("response", self._on_response)

    def leave(self, context: BrowserContext) -> None:
        """Listen to a context no longer."""
        context.remove_listener("console", self._on_console)
        context.remove_listener("weberror", self._on_error)
        context.remove_listener("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.seen.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _on_error(self, error: WebError) -> None:
        self.seen.append(f"script: {error.error}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 500:
            self.seen.append(f"{response.status}: {response.url}")

    def expect(self, part: str) -> None:
        """Say that messages which contain this text are part of the story."""
        self.expected.append(part)

    def expect_outage(self) -> None:
        """Say that the server goes away in this story, and with it connections, sockets and requests."""
        self.expected += OUTAGE

    def left(self) -> list[str]:
        """Return what no one expected."""
        return [text for text in self.seen if not any(part in text for part in self.expected)]


@pytest.fixture
def troubles() -> Iterator[Troubles]:
    """Collects what went wrong in the browsers; the test fails if anything did."""
    troubles = Troubles()
    yield troubles
    assert troubles.left() == []


@pytest.fixture
def open_context(chromium: Chromium, troubles: Troubles) -> Iterator[OpenContext]:
    """``open_context(**options)`` returns a new browser context, watched for troubles and closed when the test ends."""
    contexts: list[BrowserContext] = []

    def open_context(**options: Any) -> BrowserContext:
        context = chromium.browser().new_context(**{"locale": "en-GB"} | options)
        contexts.append(context)
        troubles.watch(context)
        return context

    yield open_context
    for context in contexts:
        chromium.close(context)


@pytest.fixture(scope="package")
def contexts(chromium: Chromium) -> Iterator[Contexts]:
    """Contexts that one test after the other uses."""
    contexts = Contexts(chromium)
    yield contexts
    contexts.close()


@pytest.fixture
def person(contexts: Contexts, troubles: Troubles, server: Server) -> Iterator[OpenPage]:
    """``person("ana")`` returns an empty page in an empty context, signed in at the server."""
    taken: list[BrowserContext] = []

    def open_page(name: str) -> Page:
        context = contexts.take(server.url)
        taken.append(context)
        troubles.watch(context)
        context.add_cookies([{"url": server.url, **server.session_of(name)}])  # type: ignore[list-item]
        return context.new_page()

    yield open_page
    for context in taken:
        troubles.leave(context)
        contexts.give_back(context)


def sign_in(page: Page, link: str) -> None:
    """Follow a one-time link: it shows a button, because link scanners must not use it up."""
    page.goto(link)
    page.get_by_role("main").get_by_role("button").click()
    page.wait_for_url("**/")

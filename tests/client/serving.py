"""A server for the client's tests: answers in this process, breaks where it is asked to, and remembers what it got."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.client.test_live import FILE
from tests.e2e.server import Server, serving
from wfdash.client import AsyncClient, Client

URL = "http://wfdash.test"
Answer = httpx.Response | Exception
STAMP = "2026-05-01T10:00:00Z"


@pytest.fixture(name="server", scope="module")
def server_for_agents(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """A server that other programs may ask people through, with a workflow of its own."""
    folder = tmp_path_factory.mktemp("agents")
    (folder / "flow.py").write_text(FILE)
    with serving(Server(folder / "data", files=[folder / "flow.py"], template=sqlite_template, asks=True)) as server:
        yield server


def run_record(**more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("title", "workflow_title", "created_by", "version", "engine"), "")
    times = {"created": STAMP, "updated": STAMP, "finished": None}
    rest = {"id": "r1", "workflow": "w", "status": "running", "seq": 1, "n": 1, "waiting_for": [], "progress": {}}
    return {**empty, **times, **rest, **more}


def event_record(seq: int) -> dict[str, Any]:
    return {"seq": seq, "kind": "step.finished", "step": "s", "data": {}, "at": STAMP}


def problem(status: int, code: str, **facts: Any) -> httpx.Response:
    headers = {"Retry-After": str(facts["retry_after"])} if "retry_after" in facts else {}
    content = {"type": "about:blank", "title": code, "status": status, "detail": f"It is {code}", "code": code, **facts}
    return httpx.Response(status, json=content, headers=headers)


def fresh(answer: httpx.Response) -> httpx.Response:
    """Return the same response for another request: one is read once."""
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return httpx.Response(answer.status_code, headers=headers, content=answer.content)


class Served:
    """Answers requests in turn; the last answer is repeated."""

    def __init__(self, *answers: Answer | Callable[[httpx.Request], httpx.Response]) -> None:
        self.answers = list(answers)
        self.got: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.got.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return fresh(answer) if isinstance(answer, httpx.Response) else answer(request)

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.got if request.content]

    def client(self, **more: Any) -> Client:
        return Client(URL, "wfd_1_secret", transport=httpx.MockTransport(self), **more)

    def async_client(self, **more: Any) -> AsyncClient:
        return AsyncClient(URL, "wfd_1_secret", transport=httpx.MockTransport(self), **more)


class Cut(httpx.SyncByteStream):
    """A body that ends after some bytes, with a broken connection or as if it were complete."""

    def __init__(self, body: bytes, at: int, *, broken: bool) -> None:
        self._body, self._broken = body[:at], broken

    def __iter__(self) -> Iterator[bytes]:
        yield self._body
        if self._broken:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

"""The lines of *Connect an agent* and the documented ``can_use_tool`` are run as they are printed."""

from __future__ import annotations

import asyncio
import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.client.test_live import DOCS, FILE, TOKEN, LocalServer, open_request, receiving
from tests.e2e.server import Server, serving, wait_until
from wfdash.client import Approval, Client

pytestmark = pytest.mark.process
PRINTED = re.compile(r'<code id="connect-lines">(.*?)</code>', re.DOTALL)
WITH_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


@pytest.fixture(name="server", scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "flow.py").write_text(FILE)
    with serving(LocalServer(folder / "data", files=[folder / "flow.py"], template=sqlite_template, asks=True)) as made:
        yield made


@pytest.fixture(scope="module")
def person(server: Server) -> Iterator[Client]:
    with Client(server.url, server.shell(TOKEN).strip(), patience=60) as client:
        yield client


@pytest.fixture
def printed(server: Server) -> Callable[[str], str]:
    """Return what the page prints for a host after *Make a token*, with the address where this server is reached."""
    cookie = server.session_of("admin")

    def lines(host: str) -> str:
        page = f"{server.url}/settings/connect/?host={host}"
        with httpx.Client(cookies={cookie["name"]: cookie["value"]}, timeout=60, follow_redirects=True) as browser:
            proof = re.search(r'csrfmiddlewaretoken" value="([^"]+)', browser.get(page).text)[1]
            shown = browser.post(page, data={"csrfmiddlewaretoken": proof}, headers={"Referer": page}).text
        return html.unescape(PRINTED.search(shown)[1]).replace("http://localhost:8000", server.url)

    return lines


def bash(script: str) -> Any:
    return json.loads(subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=90).stdout)


@WITH_CURL
def test_the_lines_for_curl_ask_and_then_wait_for_the_answer(person: Client, printed) -> None:
    ask, find, wait = re.split(r"\n(?=curl)", printed("curl"))
    (found,) = bash(find.replace("/RUN?", f"/{bash(ask)['id']}?"))["requests"]
    assert person.request(found["id"]).subject == "Ship it?"
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(bash, wait.replace("/REQUEST?", f"/{found['id']}?"))
        with pytest.raises(TimeoutError):
            waiting.result(timeout=2)
        person.answer(found["id"], {"action": "approve"})
        answer = waiting.result()["answer"]
    assert (answer["value"], answer["by"]) == ({"action": "approve"}, "admin")


def test_the_lines_for_n8n_bring_the_signed_answer_to_the_webhook(server: Server, person: Client, printed) -> None:
    with receiving() as (mine, secret, came):
        given = printed("n8n").replace("https://your-webhook.example/answer", mine).replace("whsec_...", secret)
        head, body = given.split("\n\n", 1)
        (method, url), *headers = [line.split(": " if ": " in line else " ", 1) for line in head.splitlines()]
        asked = httpx.request(method, url, headers=dict(headers), content=body, timeout=60)
        run = asked.raise_for_status().json()["id"]
        person.answer(open_request(person, run), {"action": "reject"})
        answered, ended = came.get(timeout=60), came.get(timeout=60)
    assert (answered.type, ended.type, ended.run) == ("request.answered", "run.completed", run)
    assert (ended.answer(Approval).approved, ended.answer(Approval).by) == (False, "admin")


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_the_documented_can_use_tool_allows_what_a_person_approved(
    server, person, printed, monkeypatch, action
) -> None:
    sdk: Any = ModuleType("claude_agent_sdk")
    for name in "PermissionResultAllow", "PermissionResultDeny":
        setattr(sdk, name, type(name, (SimpleNamespace,), {}))
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", sdk)
    monkeypatch.setenv("WFDASH_URL", server.url)
    monkeypatch.setenv("WFDASH_TOKEN", re.search(r"wfd_\w{8}_[\w-]+", printed("agent-sdk"))[0])
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "coding-agents.md").read_text(), flags=re.DOTALL)
    code: dict[str, Any] = {}
    exec(next(text for text in blocks if "can_use_tool" in text), code)

    async def called() -> Any:
        given = {"command": "git push", "description": action}
        call = asyncio.create_task(code["can_use_tool"]("Bash", given, SimpleNamespace(suggestions=[])))
        await asyncio.to_thread(answer, given)
        return await asyncio.wait_for(call, 60)

    def answer(given: dict[str, str]) -> None:
        (found,) = wait_until(lambda: person.requests("workflow:ask_people").items, what="the question")
        assert (found.subject, person.request(found.id).card["proposal"]) == ("Bash?", given)
        person.answer(found.id, {"action": action})

    result = asyncio.run(called())
    assert type(result).__name__ == {"approve": "PermissionResultAllow", "reject": "PermissionResultDeny"}[action]

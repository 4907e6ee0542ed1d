"""An agent asks people over the Model Context Protocol, by HTTP and by standard input, and has no way to answer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import httpx2
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.client.serving import Served, problem
from tests.client.serving import server_for_agents as server_for_agents
from tests.client.test_live import open_request
from tests.e2e.server import Server
from wfdash.client import Client
from wfdash.client.errors import NotAllowed
from wfdash.client.mcp import mcp_server
from wfdash.web.mcp import MOST_AT_ONCE, serve_mcp

pytestmark = pytest.mark.process
TOKENS = """
from django.contrib.auth import get_user_model
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token
from wfdash.actions.people.accounts import create_service_account
admin = viewer_for(get_user_model().objects.get(username="admin"))
create_service_account(admin, "agent", roles=[("operator", "ask_people")])
rights = ["see", "inspect", "start", "operate"]
print(create_token(admin, "agent", rights=rights, owner="agent").text)
print(create_token(admin, "person", rights=[*rights, "answer"]).text)
print(create_token(admin, "passing on", rights=[*rights, "answer", "answer-through-agents"]).text)
"""
OTHERS = """
from django.contrib.auth import get_user_model
from checkpoints.models import Grant
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token
ana = get_user_model().objects.create(username="ana")
Grant.objects.create(user=ana, role="operator", workflow="*")
print(create_token(viewer_for(ana), "mcp", rights=["see", "inspect", "answer", "answer-through-agents"]).text)
"""
REFUSED = """
from django.contrib.auth import get_user_model
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token
admin = viewer_for(get_user_model().objects.get(username="admin"))
try:
    create_token(admin, "second", rights=["see", "answer", "answer-through-agents"], owner="agent")
except Exception as error:
    print(vars(error))
"""


@pytest.fixture(scope="module")
def tokens(server: Server) -> list[str]:
    return server.shell(TOKENS).split()


@pytest.fixture
def person(server: Server, tokens: list[str]) -> Iterator[Client]:
    with Client(server.url, tokens[1], patience=60) as client:
        yield client


class Agent:
    """A host with an agent in it: over HTTP, or with ``wfdash mcp`` as its process."""

    def __init__(self, server: Server, token: str, *, stdio: bool = False) -> None:
        self._url, self._token, self._stdio, self._open = server.url, token, stdio, AsyncExitStack()

    async def __aenter__(self) -> Agent:
        if self._stdio:
            env = {"WFDASH_URL": self._url, "WFDASH_TOKEN": self._token}
            transport: Any = mcp.StdioServerParameters(command=sys.executable, args=["-m", "wfdash", "mcp"], env=env)
        else:
            sender = httpx2.AsyncClient(headers={"Authorization": f"Bearer {self._token}"}, timeout=60)
            await self._open.enter_async_context(sender)
            transport = streamable_http_client(f"{self._url}/mcp", http_client=sender)
        self.client = await self._open.enter_async_context(mcp.Client(transport))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.aclose()

    async def call(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments)
        text = result.content[0].text
        return text if result.is_error else json.loads(text)


async def test_an_agent_that_is_killed_while_it_waits_finds_its_question_and_gets_one_answer(
    server: Server, tokens: list[str], person: Client
) -> None:
    async with Agent(server, tokens[0]) as first:
        asked = await first.call("ask_people", subject="Ship it?", ref="ship", proposal={"version": "2.4"})
        waiting = asyncio.create_task(first.call("wait_for_answer", question=asked["question"]))
        await asyncio.sleep(0.3)
        waiting.cancel()
    request = open_request(person, asked["question"])
    assert (asked["status"], asked["link"]) == ("waiting", f"{server.url}/requests/{request}/")
    async with Agent(server, tokens[0], stdio=True) as second:
        again = await second.call("ask_people", subject="Ship it?", ref="ship", proposal={"version": "2.4"})
        assert again["question"] == asked["question"]
        person.answer(request, {"action": "approve"})
        said = await second.call("wait_for_answer", question=again["question"])
        assert (said["status"], said["answer"], said["by"]) == ("answered", {"action": "approve"}, "admin")
        other = await second.call("ask_people", subject="Ship another?", ref="ship")
        assert "another" in other or "differ" in other, other
    assert [one.run for one in person.decisions("workflow:ask_people by:me").items].count(again["question"]) == 1


async def test_no_tool_answers_and_an_agent_sees_its_own_questions_alone(
    server: Server, tokens: list[str], person: Client
) -> None:
    hidden = person.start("flow", 1)
    open_request(person, hidden.id)
    async with Agent(server, tokens[0]) as agent:
        tools = {tool.name for tool in (await agent.client.list_tools()).tools}
        assert tools == {
            *("ask_people", "wait_for_answer", "cancel_question", "answer_request", "show_request"),
            *("list_requests", "start_run", "run_status"),
        }
        asked = await agent.call("ask_people", subject="Delete it?", kind="choice", options=["yes", "no"], wait=1)
        seen = await agent.call("list_requests")
        assert {asked["question"], hidden.id} & {one["run"] for one in seen["items"]} == {asked["question"]}
        assert "not found" in (await agent.call("run_status", run=hidden.id)).lower()
        assert (await agent.call("cancel_question", question=asked["question"]))["status"] == "cancelled"
        read = await agent.client.read_resource(f"wfdash://runs/{asked['question']}")
        assert json.loads(read.contents[0].text)["status"] == "cancelled"
        said = await agent.client.read_resource(f"wfdash://runs/{asked['question']}/conversation")
        assert said.contents[0].text == ""
        prompt = await agent.client.get_prompt("ask_first", {"task": "Clean the disk."})
        assert "Clean the disk." in prompt.messages[0].content.text


async def test_an_agent_passes_on_an_answer_only_with_a_token_for_that_and_never_to_its_own_question(
    server: Server, tokens: list[str], person: Client
) -> None:
    """The agent's account has a token that an admin made: what it asks, that admin has asked, too."""
    made = server.shell(OTHERS).split()
    async with AsyncExitStack() as stack:
        asking, plain, passing, other = [
            await stack.enter_async_context(Agent(server, token)) for token in (*tokens, made[0])
        ]
        asked = await asking.call("ask_people", subject="Ship?", wait=1)
        request = open_request(person, asked["question"])
        seen = person.request(request).seen
        given = {"request": request, "seen": seen, "answer": {"action": "approve"}}
        assert "passes on no answer" in await asking.call("answer_request", **given)
        assert "passes on no answer" in await plain.call("answer_request", **given)
        assert "on behalf of admin" in await passing.call("answer_request", **given)
        assert "seen: Give" in await other.call("answer_request", **given | {"seen": ""})
        with Client(server.url, tokens[2]) as api, pytest.raises(NotAllowed, match="on behalf of admin"):
            api.answer(request, {"action": "approve"}, seen=seen)
        with Client(server.url, made[0]) as api, pytest.raises(NotAllowed, match="No agent overrides"):
            api.answer(request, {"action": "approve"}, seen=seen, override=True, reason="Now")
        assert "changed since" in await other.call("answer_request", **given | {"seen": "0" * 64})
        assert (await other.call("answer_request", **given))["decided"] is True
        risky = await asking.call("ask_people", subject="Delete?", risk="high", wait=1)
        request = open_request(person, risky["question"])
        given |= {"request": request, "seen": person.request(request).seen}
        assert risky["link"] in await other.call("answer_request", **given)
    assert "No service account answers" in server.shell(REFUSED)


@pytest.mark.parametrize("token", ["", "Basic x", "Bearer wfd_1_wrong", "Bearer \x7f"])
def test_without_a_valid_token_nothing_is_told(server: Server, token: str) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    reply = httpx.post(f"{server.url}/mcp", json=call, headers={"Authorization": token})
    wrong = 'Bearer error="invalid_token"' if token.startswith("Bearer") else "Bearer"
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, wrong)
    assert httpx.get(f"{server.url}/.well-known/oauth-protected-resource/mcp").status_code == 404
    assert "tools" not in reply.text
    assert httpx.get(f"{server.url}/mcp").status_code == 405


async def test_one_token_waits_in_so_many_calls_and_hears_when_there_are_more(
    server: Server, tokens: list[str], person: Client
) -> None:
    question = person.start("ask_people", {"subject": "Wait?"}).id
    call = {"name": "wait_for_answer", "arguments": {"question": question, "wait": 4}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Authorization": f"Bearer {tokens[1]}", "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(timeout=60, headers=headers, limits=httpx.Limits(max_connections=60)) as http:
        replies = await asyncio.gather(*(http.post(f"{server.url}/mcp", json=body) for _ in range(MOST_AT_ONCE + 5)))
    codes = Counter(reply.status_code for reply in replies)
    assert codes == {200: MOST_AT_ONCE, 429: 5}
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert refused.headers["retry-after"] == "5"
    assert "end some of them" in refused.json()["error"]["message"]


async def test_a_flood_of_calls_is_refused_for_the_rest_of_the_minute_with_the_limit_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def pages(scope: Any, receive: Any, send: Any) -> None:
        me = {"name": "ana", "groups": [], "rights": [], "token": scope["path"]}
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(me).encode()})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await serve_mcp(pages, scope, receive, send)

    monkeypatch.setattr("wfdash.web.mcp.MOST_A_MINUTE", 3)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Authorization": "Bearer wfd_1_x", "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), headers=headers) as http:
        replies = [await http.post("http://testserver/mcp", json=body) for _ in range(20)]
    assert [reply.status_code for reply in replies[:3]] == [200] * 3
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert "3 calls in a minute" in refused.json()["error"]["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_a_refused_call_names_field_and_remedy_and_no_call_waits_longer_than_hosts_do() -> None:
    errors = [{"loc": ["message", "due"], "msg": "Write 4h or 2d"}]
    client = Served(problem(422, "invalid", errors=errors)).async_client()
    async with client, mcp.Client(mcp_server(lambda: client, lambda: "http://wfdash.test/")) as agent:
        refused = await agent.call_tool("ask_people", {"subject": "Ship it?", "due": "soon"})
        assert "message.due: Write 4h or 2d" in refused.content[0].text
        long = await agent.call_tool("wait_for_answer", {"question": "r1", "wait": 60})
        assert "less than or equal to 45" in long.content[0].text

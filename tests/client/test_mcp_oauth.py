"""An agent signs its person in at the provider, and its access token opens the door for agents, for that alone."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import jwt
import mcp
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from tests.client.test_live import open_request
from tests.client.test_mcp import Agent
from tests.e2e.server import Server, serving
from tests.signin.provider import running_provider
from wfdash.access.signin.tokens import SCOPES
from wfdash.client import Client, Unauthorized

pytestmark = pytest.mark.process
PEOPLE = """
import sys
from django.contrib.auth import get_user_model
from checkpoints.models import Grant
from wfdash.access.viewer import viewer_for
from wfdash.access.signin.identities import identities, provider_in_use
from wfdash.actions.account import create_token
from wfdash.actions.people.accounts import create_service_account
admin = viewer_for(get_user_model().objects.get(username="admin"))
issuer = provider_in_use().issuer
for name, subject, active in (("ana", "s-ana", True), ("left", "s-left", False)):
    user = get_user_model().objects.create(username=name, is_active=active)
    Grant.objects.create(user=user, role="operator", workflow="*")
    identities().create(user=user, provider=issuer, uid=subject)
robot = create_service_account(admin, "robot", roles=[("operator", "*")])
identities().create(user=robot, provider=issuer, uid="s-robot")
identities().create(user=admin.user, provider="https://elsewhere.example", uid="s-other")
print(create_token(admin, "person", rights=["see", "inspect", "start", "operate", "answer"]).text)
"""
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_requests", "arguments": {}}}
ACCEPT = {"Accept": "application/json, text/event-stream"}
Mint = Callable[..., str]


class ServerForAgents(Server):
    """A server whose provider gives agents access tokens."""

    issuer = ""

    @property
    def env(self) -> dict[str, str]:
        """The environment of a server, with the provider."""
        given = {"ISSUER": self.issuer, "CLIENT_ID": "wfdash", "CLIENT_SECRET": "hush", "MCP": "1", "NAME": "Keycloak"}
        return super().env | {f"WFDASH_OIDC_{name}": value for name, value in given.items()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[ServerForAgents]:
    server = ServerForAgents(tmp_path_factory.mktemp("oauth") / "data", template=sqlite_template, asks=True)
    with running_provider(mints=True) as server.issuer, serving(server):
        yield server


@pytest.fixture(scope="module")
def admin(server: ServerForAgents) -> Iterator[Client]:
    with Client(server.url, server.shell(PEOPLE).split()[0], patience=60) as client:
        yield client


@pytest.fixture(scope="module")
def mint(server: ServerForAgents, admin: Client) -> Mint:
    """Return what has the provider sign a token: a good one of Ana's, but for what is given."""

    def minted(header: dict[str, Any] | None = None, **claims: Any) -> str:
        good = {"sub": "s-ana", "aud": f"{server.url}/mcp", "scope": "see inspect start operate"}
        return httpx.post(f"{server.issuer}/mint", json={"header": header or {}, "claims": good | claims}).text

    return minted


def called(server: Server, token: str) -> httpx.Response:
    return httpx.post(f"{server.url}/mcp", json=LIST, headers=ACCEPT | {"Authorization": f"Bearer {token}"}, timeout=60)


class Memory:
    """Where a host keeps what it got."""

    client: OAuthClientInformationFull | None = None
    tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def test_a_host_that_knows_the_address_alone_has_its_person_sign_in_and_asks_in_their_name(
    server: ServerForAgents, admin: Client
) -> None:
    back: list[str] = []

    async def press(address: str) -> None:
        asked = {name: value[0] for name, value in parse_qs(urlsplit(address).query).items()}
        assert (asked["resource"], asked["scope"].split()) == (f"{server.url}/mcp", [*SCOPES])
        async with httpx.AsyncClient() as browser:
            back.append((await browser.post(address, data={"sub": "s-ana"})).headers["location"])

    async def returned() -> AuthorizationCodeResult:
        given = {name: value[0] for name, value in parse_qs(urlsplit(back[0]).query).items()}
        return AuthorizationCodeResult(code=given["code"], state=given["state"])

    kept = Memory()
    about = OAuthClientMetadata(redirect_uris=["http://127.0.0.1:9/back"], client_name="a host", scope=" ".join(SCOPES))
    auth = OAuthClientProvider(f"{server.url}/mcp", about, kept, press, returned)
    sender = httpx2.AsyncClient(auth=auth, timeout=60)
    async with sender, mcp.Client(streamable_http_client(f"{server.url}/mcp", http_client=sender)) as agent:
        asked = await agent.call_tool("ask_people", {"subject": "Ship it?", "wait": 1})
    run = asked.structured_content["question"]
    assert (admin.run(run).created_by, kept.tokens is not None) == ("ana", True)


async def test_the_scopes_of_an_access_token_bound_what_the_person_may_do_through_it(
    server: ServerForAgents, admin: Client, mint: Mint
) -> None:
    run = admin.start("ask_people", {"subject": "Ship it?"}).id
    request = open_request(admin, run)
    given = {"request": request, "seen": admin.request(request).seen, "answer": {"action": "approve"}}
    async with Agent(server, mint(scope="see")) as reading:
        assert "may only read" in await reading.call("start_run", workflow="ask_people", message={"subject": "x"})
    async with Agent(server, mint(scope="see inspect answer admin start")) as asking:
        assert "passes on no answer" in await asking.call("answer_request", **given)
    for asked, words in (("answer-through-agents", "decided"), ("", "insufficient_scope")):
        reply = called(server, mint(scope=f"openid {asked}"))
        assert (reply.status_code, words in reply.headers.get("www-authenticate", "decided")) == (
            200 if asked else 403,
            True,
        )
    async with Agent(server, mint(scope="see inspect answer-through-agents")) as passing:
        assert (await passing.call("answer_request", **given))["decided"] is True
    assert admin.decisions("by:ana").items[0].run == run
    with Client(server.url, mint(scope="see"), patience=0) as api, pytest.raises(Unauthorized):
        api.requests()  # For the door for agents alone: the API was not its audience.


def test_no_other_token_of_the_provider_opens_the_door(server: ServerForAgents, mint: Mint) -> None:
    good = mint()
    claims = jwt.decode(good, options={"verify_signature": False})
    own = {"kid": jwt.get_unverified_header(good)["kid"], "typ": "at+jwt"}
    forged = jwt.encode(claims, "x" * 64, algorithm="HS256", headers=own)
    assert called(server, good).status_code == 200
    odd, deep = (
        urlsafe_b64encode(one).decode().rstrip("=") for one in (rb'{"typ":"at+jwt","alg":"\ud800"}', b"[" * 9_000)
    )
    refused = {
        mint(aud=f"{server.url}/mcp/"): "Audience",
        mint(aud="wfdash"): "Audience",
        mint(iss="https://elsewhere.example"): "issuer",
        mint(exp=1_000_000_000): "expired",
        mint(header={"typ": "JWT"}): "at+jwt",
        mint(header={"typ": "JWT"}, aud="wfdash", nonce="n"): "at+jwt",
        jwt.encode(claims, "", algorithm="none", headers=own): "none",
        forged: "HS256",
        good[:-8] + "A" * 8: "ignature",
        "x" * 9_000: "segments",
        f"{odd}.e30.AAAA": "not accepted",
        f"{deep}.e30.AAAA": "header",
    }
    for token, word in refused.items():
        reply = called(server, token)
        said = reply.headers["www-authenticate"]
        assert (reply.status_code, word in reply.text) == (401, True), (word, reply.text)
        assert 'error="invalid_token"' in said
        assert f'resource_metadata="{server.url}/.well-known/oauth-protected-resource/mcp"' in said
    for subject in ("s-nobody", "s-robot", "s-left", "s-other"):
        reply = called(server, mint(sub=subject))
        assert (reply.status_code, "www-authenticate" in reply.headers) == (403, False), reply.text
        assert ("deactivated" if subject == "s-left" else "no account of a person") in reply.text


def test_a_flood_of_unknown_keys_asks_the_provider_once_and_good_tokens_work_on(
    server: ServerForAgents, mint: Mint
) -> None:
    good = mint()
    assert called(server, good).status_code == 200
    before = int(httpx.get(f"{server.issuer}/asked").text)
    for number in range(20):
        assert called(server, mint(header={"kid": f"k{number}"})).status_code == 401
    assert int(httpx.get(f"{server.issuer}/asked").text) - before <= 1
    assert called(server, good).status_code == 200


def test_the_door_says_who_gives_tokens_for_it(server: ServerForAgents) -> None:
    for path in ("", "/mcp"):
        found = httpx.get(f"{server.url}/.well-known/oauth-protected-resource{path}").json()
        assert (found["resource"], found["authorization_servers"]) == (f"{server.url}/mcp", [server.issuer])
        assert found["scopes_supported"] == ["see", "inspect", "start", "operate"]
    assert httpx.get(f"{server.url}/.well-known/oauth-protected-resource/other").status_code == 404

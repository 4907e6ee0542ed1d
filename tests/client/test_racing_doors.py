"""Page, link, API, agent and chat answer one request at once: one wins, and each other is told who."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.client.test_live import open_request
from tests.cluster.conftest import new_database as new_database
from tests.e2e.server import Server, serving, wait_until
from tests.notifications.slack_workspace import SECRET, TEAM, Workspace, form_of, signed, workspace
from wfdash.actions.requests.chat import MOST_APART
from wfdash.client import Client
from wfdash.client.errors import AlreadyAnswered

pytestmark = pytest.mark.process
ROUNDS, DOORS = MOST_APART, ("bea", "cem", "dan", "eva", "fay")
"""Who answers by page, link, API, agent and Slack."""
AHEAD = 0.02
"""Seconds by which another door is ahead in each round: else the shortest one wins them all."""
FILE = """
from pathlib import Path
from wfdash.workflow import Approval, Context, Workflow

ship = Workflow("ship")

@ship.step(start=True)
async def ask(number: int, ctx: Context) -> str:
    return (await ctx.ask(Approval(subject=f"Ship no. {number}?", proposal="2.4"))).by

@ship.step(after=ask)
async def send(by: str, ctx: Context) -> str:
    with Path(__file__).with_name("sent.txt").open("a") as file:
        file.write(f"{ctx.run_id} {by}\\n")
    return by
"""
PEOPLE = """
from django.contrib.auth import get_user_model
from checkpoints.models import Grant
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token
from wfdash.actions.requests.chat import begin_connection
admin = viewer_for(get_user_model().objects.get(username="admin"))
people = [get_user_model().objects.create(username=name) for name in ("bea", "cem", "dan", "eva", "fay")]
for one in people:
    Grant.objects.create(user=one, role="operator", workflow="*")
print(create_token(admin, "tests", rights=["see", "inspect", "start"]).text)
print(create_token(viewer_for(people[2]), "api", rights=["see", "inspect", "answer"]).text)
print(create_token(viewer_for(people[3]), "mcp", rights=["see", "inspect", "answer", "answer-through-agents"]).text)
print(begin_connection(viewer_for(people[4])))
"""
LINK = """
from django.contrib.auth import get_user_model
from checkpoints.models import HumanRequest
from wfdash.actions.requests.answer_links import answer_link
print(answer_link(HumanRequest.objects.get(pk="{request}"), get_user_model().objects.get(username="cem")))
"""
STORED = """
import json
from checkpoints.models import Answer, AuditEntry, Event, Reply
print(json.dumps([
    [one.by.username for one in Reply.objects.filter(request="{request}")],
    [one.by.username for one in Answer.objects.filter(request="{request}")],
    [one.actor for one in AuditEntry.objects.filter(verb="answer", request="{request}")],
    [one.kind for one in Event.objects.filter(run="{run}", kind__in=["request.answered", "run.completed"])],
]))
"""


class Racing(Server):
    """A server with a chat service, on a database of its own."""

    more: dict[str, str]

    @property
    def env(self) -> dict[str, str]:
        return super().env | self.more


@pytest.fixture
def slack() -> Iterator[Workspace]:
    with workspace() as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def server(tmp_path: Path, request: pytest.FixtureRequest, slack: Workspace) -> Iterator[Server]:
    is_sqlite = request.param == "sqlite"
    (tmp_path / "ship.py").write_text(FILE)
    template = request.getfixturevalue("sqlite_template") if is_sqlite else None
    made = Racing(tmp_path / "data", files=[tmp_path / "ship.py"], template=template, asks=True)
    made.more = {"WFDASH_SLACK_API": slack.url, "WFDASH_SLACK_TEAM": TEAM, "WFDASH_SLACK_TOKEN": "xoxb-1"}
    made.more |= {"WFDASH_SLACK_SECRET": SECRET}
    made.more |= {} if is_sqlite else {"WFDASH_DATABASE": request.getfixturevalue("new_database")}
    with serving(made) as running:
        yield running


def test_of_five_doors_that_answer_at_once_one_wins_and_the_others_are_told(server: Server, slack: Workspace) -> None:
    starting, by_api, by_agent, code = server.shell(PEOPLE).split()
    cookie = server.session_of("bea")
    with contextlib.ExitStack() as stack:
        page = stack.enter_context(httpx.Client(cookies={cookie["name"]: cookie["value"]}, timeout=60))
        mail, chat = [stack.enter_context(httpx.Client(timeout=60)) for _ in range(2)]
        person = stack.enter_context(Client(server.url, starting, patience=60))
        api = stack.enter_context(Client(server.url, by_api, patience=60))
        agent = stack.enter_context(httpx.Client(headers={"Authorization": f"Bearer {by_agent}"}, timeout=60))
        threads = stack.enter_context(ThreadPoolExecutor(len(DOORS)))

        def slack_says(payload: dict[str, object]) -> httpx.Response:
            body = form_of(payload)
            headers = {**signed(body), "content-type": "application/x-www-form-urlencoded"}
            return chat.post(f"{server.url}/slack/", content=body, headers=headers)

        given = {"command": "/wfdash", "text": f"connect {code}", "team_id": TEAM, "user_id": "UFAY"}
        assert "Connected with fay" in slack_says(given).text

        def race(number: int, run: str) -> str:
            request = open_request(person, run)
            seen, start = person.request(request).seen, threading.Barrier(len(DOORS))
            link = server.shell(LINK.format(request=request)).strip().replace("http://localhost:8000", server.url)
            (place,) = wait_until(lambda: [p for p in slack.posted() if f"no. {number}?" in slack.texts(p)])
            pressed = slack.press(place, "approve", "UFAY")

            def go(door: int) -> None:
                start.wait()
                time.sleep(0 if door == number % len(DOORS) else AHEAD)

            def posted(door: int, one: httpx.Client, url: str) -> Callable[[], str]:
                proof = re.search(r'csrfmiddlewaretoken" value="([^"]+)', one.get(url).text)[1]

                def post() -> str:
                    go(door)
                    form = {"_action": "approve", "csrfmiddlewaretoken": proof, "_seen": seen}
                    reply = one.post(url, data=form, headers={"Referer": server.url})
                    return reply.text if reply.status_code == 409 else ""

                return post

            def called() -> str:
                go(2)
                try:
                    assert api.answer(request, {"action": "approve"}, seen=seen).decided
                except AlreadyAnswered as error:
                    return str(error)
                return ""

            def passed_on() -> str:
                arguments = {"request": request, "seen": seen, "answer": {"action": "approve"}}
                params = {"name": "answer_request", "arguments": arguments}
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                accept = {"Accept": "application/json, text/event-stream"}
                go(3)
                result = agent.post(f"{server.url}/mcp", json=body, headers=accept).json()["result"]
                return str(result) if result.get("isError") else ""

            def press() -> str:
                go(4)
                assert slack_says(pressed).status_code == 200
                return wait_until(lambda: "" if slack.buttons(place) else slack.texts(place))

            doors = [
                posted(0, page, f"{server.url}/requests/{request}/"),
                posted(1, mail, link),
                called,
                passed_on,
                press,
            ]
            told = [one.result() for one in [threads.submit(door) for door in doors]]
            winner = str(person.wait(run).output)
            stored = json.loads(server.shell(STORED.format(request=request, run=run)))
            assert stored == [[winner], [winner], [winner], ["request.answered", "run.completed"]]
            for name, words in zip(DOORS, told, strict=True):
                assert words == "" if name == winner != "fay" else winner in words, (name, words)
            sent = Path(server.data.parent, "sent.txt").read_text().splitlines()
            assert sent.count(f"{run} {winner}") == len([one for one in sent if one.startswith(run)]) == 1
            return winner

        runs = [person.start("ship", number).id for number in range(ROUNDS)]
        winners = {race(number, run) for number, run in enumerate(runs)}
    assert len(winners) > 1, "it is a race"

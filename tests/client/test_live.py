"""The client and the command line against a real server, which is killed in the meantime; the documented script."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.e2e.server import Server, wait_until
from wfdash import cli
from wfdash.client import (
    Approval,
    BadToken,
    Callback,
    CallbackDelivery,
    Client,
    ask_sync,
    new_callback_secret,
    verify_callback,
)
from wfdash.records import WorkflowEvent

pytestmark = pytest.mark.process

FILE = """
from wfdash.workflow import Context, Workflow

flow = Workflow("flow")

@flow.step(start=True)
async def first(n: int, ctx: Context) -> str:
    return await ctx.ask("Which?", answer=str)

@flow.step(after=first)
async def second(said: str) -> str:
    return said + "!"
"""
TOKEN = """
from django.contrib.auth import get_user_model
from wfdash import actions
from wfdash.access.viewer import viewer_for
admin = viewer_for(get_user_model().objects.get(username="admin"))
from wfdash.actions.account.tokens import create_token
print(create_token(admin, "tests", rights=["see", "inspect", "answer", "start", "operate"]).text)
"""
PAGE = Path(__file__).parents[2] / "docs/ask-from-anywhere.md"


class LocalServer(Server):
    """A server that delivers callbacks to this machine."""

    @property
    def env(self) -> dict[str, str]:
        return super().env | {"WFDASH_HOOKS_LOCAL": "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("client")
    (folder / "flow.py").write_text(FILE)
    server = LocalServer(folder / "data", files=[folder / "flow.py"], template=sqlite_template, asks=True).start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def token(server: Server) -> str:
    return server.shell(TOKEN).strip()


@pytest.fixture
def client(server: Server, token: str) -> Iterator[Client]:
    with Client(server.url, token, patience=60) as client:
        yield client


def open_request(client: Client, run: str) -> str:
    """Return the id of the request that a run waits for."""
    return wait_until(lambda: next((one.id for one in client.run(run).requests), ""), what="a request")


def not_the_end_of(run: str) -> Callable[[WorkflowEvent], bool]:
    return lambda event: (event.run, event.kind) != (run, "run.completed")


def test_what_is_watched_and_waited_for_survives_a_killed_server(server: Server, client: Client) -> None:
    run = client.start("flow", 1)
    with ThreadPoolExecutor(3) as threads:
        watched = threads.submit(lambda: [event.seq for event in client.watch(run.id, patience=60)])
        workflow = threads.submit(lambda: list(takewhile(not_the_end_of(run.id), client.watch_workflow("flow"))))
        waited = threads.submit(client.wait, run.id)
        request = open_request(client, run.id)
        server.kill()
        server.start()
        client.answer(request, "this")
        assert waited.result(60).output == "this!"
        seen = watched.result(60)
        of_workflow = [event.seq for event in workflow.result(60) if event.run == run.id]
    assert of_workflow == seen[:-1]
    assert seen == [event.seq for event in client.events(run.id)]
    assert seen == list(range(1, len(seen) + 1))


def test_the_same_ref_waits_for_the_same_question(server: Server, client: Client, token: str, capsys) -> None:
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(ask_sync, "Ship it?", Approval, ref="ship", client=client) for _ in range(2)]
        found = wait_until(lambda: client.requests("workflow:ask_people").items, what="the question")
        assert len(found) == 1
        given = ["--url", server.url, "--token", token]
        assert cli.main(["requests", "answer", found[0].id, "approve", *given]) == 0
        assert [one.result(60).approved for one in both] == [True, True]
    assert [run.title for run in client.runs("workflow:ask_people").items].count("Ship it?") == 1
    capsys.readouterr()
    assert cli.main(["requests", "ask", "Ship it?", "--ref", "ship", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["by"] == "admin"


def test_a_token_that_is_none_is_refused(server: Server, capsys) -> None:
    with Client(server.url, "wfd_x_y") as client, pytest.raises(BadToken):
        client.me()
    assert cli.main(["me", "--url", server.url, "--token", "wfd_x_y"]) == 4
    assert "oken" in capsys.readouterr().err


def test_a_callback_brings_a_signed_answer_to_a_program_that_does_not_wait(client: Client) -> None:
    secret, came = new_callback_secret(), SimpleQueue[CallbackDelivery]()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            came.put(verify_callback(self.headers, body, secret))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Receiver) as receiver, ThreadPoolExecutor(1) as thread:
        thread.submit(receiver.serve_forever)
        try:
            callback = Callback(url=f"http://127.0.0.1:{receiver.server_port}/back", secret=secret)
            run = client.open_question("Deploy?", Approval, ref="deploy", callback=callback)
            client.answer(open_request(client, run.id), {"action": "approve"})
            answered, ended = came.get(timeout=60), came.get(timeout=60)
        finally:
            receiver.shutdown()
    assert (answered.type, ended.type, ended.run) == ("request.answered", "run.completed", run.id)
    decision = ended.answer(Approval)
    assert (decision.approved, decision.by) == (True, "admin")


@pytest.mark.skipif(shutil.which("jq") is None or shutil.which("curl") is None, reason="needs curl and jq")
def test_the_documented_script_asks_and_prints_the_answer(server: Server, client: Client, token: str) -> None:
    script = next(text for text in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL) if "jq" in text)
    env = os.environ | {"WFDASH_URL": server.url, "WFDASH_TOKEN": token}
    asking = subprocess.Popen(["bash", "-euc", script], env=env, stdout=subprocess.PIPE, text=True)
    try:
        found = wait_until(lambda: client.requests("workflow:ask_people", tab="all").items, what="the question")
        assert found[0].subject == "Ship version 2.4?"
        client.answer(found[0].id, {"action": "reject"})
        output, _ = asking.communicate(timeout=60)
    finally:
        asking.kill()
    assert json.loads(output) == {"answer": "reject", "by": "admin"}

"""The client and the command line against a real server, which is killed in the meantime; the documented script."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.e2e.server import COMMAND, Server, wait_until
from tests.live.feeds.schemas import check_stream
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
from wfdash.records.runs import WorkflowEvent

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
from wfdash.access.viewer import viewer_for
admin = viewer_for(get_user_model().objects.get(username="admin"))
from wfdash.actions.account import create_token
print(create_token(admin, "tests", rights=["see", "inspect", "answer", "start", "operate"]).text)
"""
DOCS = Path(__file__).parents[2] / "docs"


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


def until_completed(events: Iterable[WorkflowEvent], run: str) -> list[WorkflowEvent]:
    """Return the events of a workflow up to the end of a run."""
    found = []
    for event in events:
        found.append(event)
        if (event.run, event.kind) == (run, "run.completed"):
            break
    return found


def open_request(client: Client, run: str) -> str:
    return wait_until(lambda: next((one.id for one in client.run(run).requests), ""), what="a request")


def test_what_is_watched_and_waited_for_survives_a_killed_server(server: Server, client: Client) -> None:
    run = client.start("flow", 1)
    with ThreadPoolExecutor(3) as threads:
        watched = threads.submit(lambda: [event.seq for event in client.watch(run.id, patience=60)])
        waited = threads.submit(client.wait, run.id)
        of_workflow = threads.submit(until_completed, client.watch_workflow("flow", patience=60), run.id)
        request = open_request(client, run.id)
        server.kill()
        server.start()
        client.answer(request, "this")
        assert waited.result(60).output == "this!"
        seen, all_seen = watched.result(60), of_workflow.result(60)
    assert seen == [event.seq for event in client.events(run.id)]
    assert seen == list(range(1, len(seen) + 1))
    assert [event.seq for event in all_seen if event.run == run.id] == seen
    places = [(event.run, event.seq) for event in client.workflow_events("flow")]
    assert [(event.run, event.seq) for event in all_seen] == places[: len(all_seen)]


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


@contextmanager
def receiving() -> Iterator[tuple[str, str, SimpleQueue[CallbackDelivery]]]:
    """Receive signed callbacks: the address, the secret, and what came."""
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
            yield f"http://127.0.0.1:{receiver.server_port}/back", secret, came
        finally:
            receiver.shutdown()


def test_a_callback_brings_a_signed_answer_to_a_program_that_does_not_wait(client: Client) -> None:
    with receiving() as (url, secret, came):
        run = client.open_question("Deploy?", Approval, ref="deploy", callback=Callback(url=url, secret=secret))
        client.answer(open_request(client, run.id), {"action": "approve"})
        answered, ended = came.get(timeout=60), came.get(timeout=60)
    assert (answered.type, ended.type, ended.run) == ("request.answered", "run.completed", run.id)
    decision = ended.answer(Approval)
    assert (decision.approved, decision.by) == (True, "admin")


@pytest.mark.skipif(shutil.which("jq") is None or shutil.which("curl") is None, reason="needs curl and jq")
def test_the_documented_script_asks_and_prints_the_answer(server: Server, client: Client, token: str) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "ask-from-anywhere.md").read_text(), flags=re.DOTALL)
    script = next(text for text in blocks if "jq" in text)
    env = os.environ | {"WFDASH_URL": server.url, "WFDASH_TOKEN": token}
    asking = subprocess.Popen(["bash", "-euc", script], env=env, stdout=subprocess.PIPE, text=True)
    try:
        found = wait_until(lambda: client.requests("workflow:ask_people", tab="all").items, what="the question")
        assert found[0].subject == "Ship version 2.4?"
        client.answer(found[0].id, {"action": "reject"})
        output, _ = asking.communicate(timeout=60)
    finally:
        asking.kill()
        asking.communicate()  # It closes the pipe, which the next test would be blamed for.
    assert json.loads(output) == {"answer": "reject", "by": "admin"}


@pytest.fixture
def documented(server: Server, token: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Return the blocks of a language on the page about event streams, for this server's workflow."""
    monkeypatch.setenv("WFDASH_URL", server.url)
    monkeypatch.setenv("WFDASH_TOKEN", token)
    page = (DOCS / "event-streams.md").read_text().replace("workflows/purchase/", "workflows/flow/")
    return lambda language: re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_documented_commands_show_the_events_of_a_run_and_of_its_workflow(client: Client, documented) -> None:
    run, shown = client.start("flow", 1).id, {}
    request = open_request(client, run)
    page_of_run, stream_of_run, page_of_workflow, stream_of_workflow = documented("sh")
    for name, script in ("run", stream_of_run), ("workflow", stream_of_workflow):
        command = ["bash", "-c", f"RUN={run}; exec {script.replace('curl', 'curl -sS --fail-with-body')}"]
        shown[name] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    command = [COMMAND, "workflows", "watch", "flow", "--json", "--after", "start"]
    shown["terminal"] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        # The stream of the workflow begins with what follows: its first message says from where.
        opened = [shown["workflow"].stdout.readline() for _ in range(4)]
        assert opened[0] == "retry: 1000\n"
        client.answer(request, "this")
        client.wait(run)
        streamed = shown["run"].communicate(timeout=60)[0]
        lines = list(itertools.takewhile(lambda line: "run.completed" not in line, shown["workflow"].stdout))
        printed = until_completed(map(WorkflowEvent.model_validate_json, shown["terminal"].stdout), run)
    finally:
        for process in shown.values():
            process.kill()
            process.communicate()
    events = events_of(f"/api/v1/runs/{run}/events", streamed)
    for script in page_of_run, page_of_workflow:
        command = script.replace("$RUN", run).replace("curl", "curl -sS --fail-with-body")
        page = json.loads(subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout)
        assert [one["seq"] for one in page["items"] if one.get("run", run) == run] == [one["seq"] for one in events]
    assert events[-1]["kind"] == "run.completed"
    of_workflow = [
        WorkflowEvent.model_validate(one) for one in events_of("/api/v1/workflows/flow/events", "".join(lines))
    ]
    assert of_workflow == list(client.workflow_events("flow", after=opened[3][4:].strip()))[:-1]
    assert [event.seq for event in printed if event.run == run] == [one["seq"] for one in events]


def events_of(path: str, text: str) -> list[dict[str, Any]]:
    """Return the events of a stream, each of its messages held against its schema."""
    found = []
    for block in text.split("\n\n"):
        message = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in message:
            data = json.loads(message["data"])
            check_stream(path, {**message, "data": data})
            found += [data] if "id" in message else []
    return found

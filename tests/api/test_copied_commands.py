"""The commands that pages offer to copy, executed as they are against a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from tests import nursery
from tests.e2e.client import Person
from tests.e2e.server import COMMAND, Server, serving, wait_until

pytestmark = pytest.mark.process

WORKFLOW = """
from pydantic import BaseModel, SecretStr
from wfdash.workflow import Approval, Context, Workflow

class Order(BaseModel):
    item: str
    key: SecretStr

order = Workflow("order", examples=[{"item": "O'Neill's $(chair) `x`", "key": "hush"}])

@order.step(start=True)
async def review(o: Order, ctx: Context) -> str:
    return (await ctx.ask(Approval(subject=f"Buy {o.item}?"))).action

class Purchase(BaseModel):
    item: str

purchase = Workflow("purchase")

@purchase.step(start=True)
async def approve(p: Purchase, ctx: Context) -> str:
    return (await ctx.ask(Approval(subject=f"Buy {p.item}?"))).action
"""
SESSION = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("commands")
    (folder / "orders.py").write_text(WORKFLOW)
    with serving(Server(folder / "data", files=[folder / "orders.py"], template=sqlite_template)) as running:
        yield running


@pytest.fixture(scope="module")
def admin(server: Server) -> Iterator[Person]:
    person = Person(server, "admin")
    yield person
    person.close()


@pytest.fixture(scope="module")
def token(server: Server) -> str:
    made = [COMMAND, "token", "create", "admin", "copied", "--rights", "answer,start", "--workflow", "order"]
    return nursery.run(made, env=server.env, cwd=server.data.parent).stdout.strip()


def command(page: str, name: str) -> str:
    found = re.search(rf'<code id="{name}">(.*?)</code>', page, re.DOTALL)
    assert found, page
    return unescape(found[1])


def executed(text: str, token: str, *, shell: bool) -> dict[str, object]:
    """Run a copied command in a shell or in Python, with nothing but the token that it asks for."""
    env = {"PATH": os.environ["PATH"], "WFDASH_TOKEN": token, "no_proxy": "*"}
    program = [shutil.which("sh") or "sh"] if shell else [sys.executable, "-"]
    done = subprocess.run(program, input=text, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("shell", [pytest.param(True, id="curl"), pytest.param(False, id="python")])
def test_a_run_is_started_again_and_answered_with_what_the_pages_copy(admin: Person, token: str, shell: bool):
    if shell and shutil.which("curl") is None:
        pytest.skip("no curl here")
    kind = "curl" if shell else "python"
    first = executed(command(admin.get("/workflows/order/").text, f"start-commands-{kind}"), token, shell=shell)
    page = admin.get(f"/runs/{first['id']}/").text
    assert "hush" not in page
    again = command(page, f"start-commands-{kind}")
    assert "<key>" in again
    second = executed(again.replace("<key>", "given"), token, shell=shell)
    assert second["id"] != first["id"]
    asked = wait_until(lambda: _request_of(admin, str(second["id"])), what="the request of the second run")
    assert asked["subject"] == "Buy O'Neill's $(chair) `x`?"
    answer = executed(
        command(admin.get(f"/requests/{asked['id']}/").text, f"answer-commands-{kind}"), token, shell=shell
    )
    assert (answer["request"], answer["verdict"]) == (asked["id"], "approve")


def _request_of(admin: Person, run: str) -> dict[str, str]:
    found = admin.get("/api/v1/requests?tab=all&q=workflow:order").json()["items"]
    return next((one for one in found if one["run"] == run), {})


PRINTED: tuple[tuple[str, ...], ...] = (
    ('"name": "purchase"', '"input_schema":', '"item"'),
    (),
    (),
    ('"subject": "Buy chair?"', '"answer_schema":', '"seen":', '"state": "open"'),
    ('"verdict": "approve"', '"decided": true'),
    ("event: run.queued", "event: request.answered", "event: run.completed"),
    ('"status": "completed"', '"output": "approve"', '"kind": "request.answered"', '"ended": true'),
    ('"verb": "restore"', '"mark":', '"n": ', '"subject": "Buy chair?"', '"answered": null'),
    ('"verb": "start"', '"verb": "answer"', '"verb": "restore"', '"format": "wfdash-audit/2"', '"signature":'),
)
"""What each block of the documented session prints, among more."""


def test_the_documented_session_goes_from_start_to_audit_with_nothing_but_curl(server: Server, admin: Person):
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    rights = ["--rights", "inspect,answer,start,operate"]
    made = [COMMAND, "token", "create", "admin", "session", *rights]
    token = nursery.run(made, env=server.env, cwd=server.data.parent).stdout.strip()
    blocks = re.findall(r"```sh\n(.*?)```", SESSION.read_text(), re.DOTALL)[: len(PRINTED)]
    commands = "\necho; echo ----\n".join(blocks)
    env = {"PATH": os.environ["PATH"], "WFDASH_TOKEN": token, "WFDASH_URL": server.url, "no_proxy": "*"}
    program = [shutil.which("sh") or "sh", "-eu"]
    done = subprocess.run(program, input=commands, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split("\n----\n")
    assert len(printed) == len(PRINTED)
    for block, output, pieces in zip(blocks, printed, PRINTED, strict=True):
        assert [piece for piece in pieces if piece not in output] == [], (block, output)
        assert bool(pieces) == bool(output.strip()), (block, output)
    (run,) = {one["id"] for one in admin.get("/api/v1/runs?q=workflow:purchase").json()["items"]}
    found = admin.get(f"/api/v1/runs/{run}").json()
    assert (found["status"], len(found["requests"])) == ("waiting", 1)

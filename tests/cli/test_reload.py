"""``wfdash up --reload`` on a real server: save, look, break, mend; a waiting run survives all of it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.client import Person
from tests.e2e.server import Server, wait_until

pytestmark = pytest.mark.process

FILE = """
from wfdash.workflow import Context, Workflow

flow = Workflow("flow")

@flow.step(start=True)
async def first(n: int, ctx: Context) -> str:
    return await ctx.ask("Which?", answer=str)
"""
MORE = """
@flow.step(after=first)
async def second(said: str) -> str:
    return said + "!"
"""
FAILING = """
failing = Workflow("failing")

@failing.step(start=True)
def look(n: int) -> int:
    return {}["gone"]

forgetful = Workflow("forgetful")

@forgetful.step(start=True)
async def forget(n: int, ctx: Context) -> str:
    return "yes" if ctx.ask("Which?").approved else "no"

mistaken = Workflow("mistaken")

@mistaken.step(start=True)
async def mistake(n: int, ctx: Context) -> str:
    return await ctx.ask("Which?", answer=str, need=2)
"""
SERVED_SECONDS = 20.0
"""A limit that only a failure reaches; what it takes as a rule is in docs/workflows.md."""


def test_a_saved_file_is_served_a_broken_one_is_not_and_a_waiting_run_continues(tmp_path: Path, sqlite_template: Path):
    file = tmp_path / "flow.py"
    file.write_text(FILE)
    server = Server(tmp_path / "data", files=[Path("--reload"), file], template=sqlite_template).start()
    admin = Person(server, "admin")
    try:
        run = start(admin)
        asked = wait_until(lambda: admin.get("/api/v1/requests?tab=all").json()["items"], what="a request")
        began = time.monotonic()
        file.write_text(FILE + MORE)
        shows(admin, "/workflows/flow/", 'id="step-second"')
        print(f"served {time.monotonic() - began:.2f} s after it was saved")
        assert admin.get("/reloaded/workflows/").json()["words"]

        file.write_text(FILE + MORE + "\ndef (:\n")
        page = shows(admin, "/workflows/flow/", "This is its last good version")
        assert f"{file}:14" in page
        assert 'id="step-second"' in page
        wait_until(lambda: "is still served" in server.log(), what="the line in the terminal")

        number = read_again(admin)
        file.write_text(FILE + MORE + "\ndef (:\n\n")
        wait_until(lambda: read_again(admin) > number, what="the second look at it")
        assert server.log().count("is still served") == 1
        assert "importlib" not in server.log()
        (tmp_path / "other.py").write_text(FILE)
        second = Server(tmp_path / "data", files=[tmp_path / "other.py"]).start()
        assert f"(workflows: {file}); until it ends this one only serves pages" in second.log()
        assert second.stop() == 0
        command = [sys.executable, "-m", "wfdash", "workflows", "list", "--data", str(tmp_path / "data")]
        said = subprocess.run(command, env=server.env, capture_output=True, text=True, timeout=120)
        assert said.returncode == 0, said.stderr
        (line,) = said.stderr.splitlines()
        assert f"Could not load workflows: see 'wfdash check {file}'" in line

        file.write_text(FILE + FAILING)
        shows(admin, "/workflows/failing/", 'id="step-look"')
        for name in ("failing", "forgetful", "mistaken", "failing"):
            failed = str(post(admin, "/api/v1/runs", {"workflow": name, "message": 1})["id"])
            wait_until(lambda one=failed: admin.get(f"/api/v1/runs/{one}").json()["status"] == "failed", what=failed)
        log = server.log().partition("Step look failed:")[2]
        assert log.count("KeyError: 'gone'") == 1
        assert f'File "{file}"' in log
        assert "The step did not await ctx.ask(...): write 'await ctx.ask(...)'" in log
        assert "ctx.ask takes no need=" in log
        assert "wfdash/" not in log.replace(str(file), "")
        assert "restart the worker" not in admin.get(f"/runs/{failed}/").text

        file.write_text(FILE)
        wait_until(lambda: "last good version" not in admin.get("/workflows/flow/").text, what="the file as it was")
        answer(admin, asked[0]["id"])
        done = wait_until(lambda: finished(admin, run), seconds=SERVED_SECONDS, what="the end of the run")
        assert done["output"] == "this"
        assert server.stop() == 0
    finally:
        admin.close()
        server.kill()


def read_again(admin: Person) -> int:
    return int(admin.get("/reloaded/workflows/").json()["number"])


def start(admin: Person) -> str:
    return str(post(admin, "/api/v1/runs", {"workflow": "flow", "message": 1})["id"])


def answer(admin: Person, request: str) -> None:
    post(admin, f"/api/v1/requests/{request}/answer", {"value": "this"})


def post(admin: Person, path: str, body: dict[str, object]) -> dict[str, object]:
    given = admin.http.post(path, json=body, headers={"X-CSRFToken": admin.http.cookies["csrftoken"]})
    assert given.status_code < 300, given.text
    return dict(given.json())


def finished(admin: Person, run: str) -> dict[str, object]:
    found = admin.get(f"/api/v1/runs/{run}").json()
    return dict(found) if found["status"] == "completed" else {}


def shows(admin: Person, path: str, text: str) -> str:
    return wait_until(lambda: page if text in (page := admin.get(path).text) else "", seconds=SERVED_SECONDS, what=text)

"""The page on Django projects, done: its files are written, its commands run, and its run is approved."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import call_command

from tests.e2e.server import free_port, wait_until

PAGE, _, REST = (Path(__file__).parents[2] / "docs/django.md").read_text().partition("## Templates")
BLOCKS = re.findall(r'```(sh|python)(?: title="([^"]+)")?\n(.*?)```', PAGE, re.DOTALL)
MANAGE = "import sys; from django.core.management import execute_from_command_line as run; [run(a.split()) for a in {}]"


def write(folder: Path, title: str, text: str) -> None:
    """Write a file of the page, or what it adds to one."""
    name, _, end = title.partition(", ")
    file = folder / name
    file.write_text(file.read_text() + text if end else text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project made as the page says, with its tables and its person; its commands in one process."""
    folder = tmp_path_factory.mktemp("project")
    typed: list[str] = []
    for kind, title, text in BLOCKS:
        if kind == "python":
            write(folder, title, text)
            continue
        for words in map(shlex.split, text.splitlines()):
            if words[:2] == ["django-admin", "startproject"]:
                call_command("startproject", words[2], str(folder))
            elif words[1:3] == ["manage.py", "startapp"]:
                with chdir(folder):
                    call_command("startapp", words[3])
            elif "runserver" not in words and "manage.py" in words:
                typed.append(" ".join(words[words.index("manage.py") :]))
    with (folder / "mysite/settings.py").open("a") as settings:
        settings.write("WFDASH_UNDO = 0  # so that the test need not wait\n")
    assert [line.split()[1] for line in typed] == ["check", "migrate", "createsuperuser"]
    subprocess.run([sys.executable, "-c", MANAGE.format(typed)], cwd=folder, env=environment(), check=True)
    return folder


def environment() -> dict[str, str]:
    """What a terminal has in which the virtual environment is active."""
    (password,) = re.findall(r"DJANGO_SUPERUSER_PASSWORD=(\S+)", PAGE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    own = {"DJANGO_SETTINGS_MODULE": "mysite.settings", "DJANGO_SUPERUSER_PASSWORD": password}
    return kept | own | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def served(project: Path) -> Iterator[str]:
    """The address of the project's development server."""
    port = free_port()
    command = [sys.executable, "manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"]
    with (project / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=project, env=environment(), stdout=log, stderr=log)
    try:
        wait_until(lambda: "Quit the server" in (project / "log").read_text(), what="a server that starts")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.process
def test_ten_steps_lead_from_an_empty_project_to_an_approved_run(served: str) -> None:
    patient = httpx.HTTPTransport(retries=8)  # until it listens
    with httpx.Client(base_url=served, transport=patient, follow_redirects=True, timeout=60) as browser:
        form = browser.get("/people/")
        assert form.url.path == "/admin/login/"
        signed_in = browser.post(str(form.url), data={"username": "ana", "password": "of-the-shop", **token(browser)})
        assert signed_in.url.path == "/people/"
        assert "Refund an order" in browser.get("/people/workflows/").text
        run = call(browser, "runs", {"workflow": "refund", "message": 5})["id"]
        waiting = browser.get(f"/people/api/v1/runs/{run}", params={"wait": 30}).json()
        (request,) = waiting["requests"]
        call(browser, f"requests/{request['id']}/answer", {"value": {"action": "approve"}})
        done = wait_until(lambda: ended(browser, run), what="the end of the run")
        assert (done["status"], done["output"]) == ("completed", "approve")


def token(browser: httpx.Client) -> dict[str, str]:
    return {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}


def call(browser: httpx.Client, path: str, body: Any) -> Any:
    headers = {"X-CSRFToken": browser.cookies["csrftoken"]}
    answer = browser.post(f"/people/api/v1/{path}", json=body, headers=headers)
    assert answer.is_success, answer.text
    return answer.json()


def ended(browser: httpx.Client, run: str) -> Any:
    found = browser.get(f"/people/api/v1/runs/{run}", params={"wait": 20}).json()
    return found if found["status"] == "completed" else None


@pytest.mark.process
def test_a_worker_of_its_own_ends_when_it_is_asked_to(project: Path) -> None:
    command = [sys.executable, "manage.py", "wfdash_worker"]
    process = subprocess.Popen(command, cwd=project, env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline().startswith("Worker ")
        process.terminate()
        assert process.wait(60) == 0


def test_the_router_of_the_page_keeps_another_app_beside_people(settings: Any) -> None:
    given: dict[str, Any] = {}
    for _, _, text in re.findall(r'```(python)( title="[^"]+")?\n(.*?)```', REST, re.DOTALL):
        exec(text, given)
    settings.WFDASH_DATABASE_ALIAS = given["WFDASH_DATABASE_ALIAS"]
    routes = given["Routes"]()
    made = [routes.allow_migrate("workflows", app) for app in ("account", "checkpoints", "shop")]
    assert (made, routes.allow_migrate("default", "account")) == ([True, True, False], False)

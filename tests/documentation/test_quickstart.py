"""The quickstart, done: its file is served, a shell runs its commands; its tests and those of the tutorial pass."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.server import free_port, wait_until
from tests.keys import AUDIT_KEY
from wfdash.client import Client

COOKBOOK = Path(__file__).parents[2] / "docs/cookbook"
PAGE, TUTORIAL = ((COOKBOOK.parent / name).read_text() for name in ("quickstart.md", "tutorial.md"))
COMMANDS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
FILES = dict(re.findall(r'```python title="(\w+\.py)"\n(.*?)```', PAGE + TUTORIAL, re.DOTALL))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of both pages."""
    folder = tmp_path_factory.mktemp("quickstart")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def environment(port: int) -> dict[str, str]:
    """What a terminal has in which the virtual environment is active, with the address in place of the page's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "PORT": str(port), "PYTHONUNBUFFERED": "1", "WFDASH_AUDIT_KEY": AUDIT_KEY}


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[int]:
    """The port of a server that the page's command has started."""
    port = free_port()
    (command,) = [command for command in COMMANDS if command.startswith("wfdash up")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=folder, env=environment(port), stdout=log, stderr=log
        )
    try:
        wait_until(lambda: "Sign in as admin" in (folder / "log").read_text(), what="the link to sign in")
        yield port
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.process
def test_its_commands_start_approve_restore_and_approve_again(folder: Path, served: int) -> None:
    first, *rest = COMMANDS
    assert "pip install" in first
    typed = "\n".join(command for command in rest if not command.startswith(("wfdash up", "pip install")))
    script = "set -euo pipefail\n" + typed.replace("localhost:8000", f"127.0.0.1:{served}")
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment(served), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "paid 80.00 for A-7" in said[0] + said[1]
    assert "paid 40.00 for A-7" in said[-1]
    assert "review" in done.stdout


@pytest.mark.process
def test_the_cookbook_s_script_asks_the_people_of_this_server(
    folder: Path, served: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["wfdash", "token", "create", "admin", "script"]
    made = subprocess.run(command, cwd=folder, env=environment(served), capture_output=True, text=True, timeout=240)
    monkeypatch.setenv("WFDASH_URL", f"http://127.0.0.1:{served}")
    monkeypatch.setenv("WFDASH_TOKEN", made.stdout.strip())
    deploy = runpy.run_path(str(COOKBOOK / "outside_ask.py"))["deploy"]
    with ThreadPoolExecutor(1) as script, Client() as client:
        deployed = script.submit(deploy, "2.4", by="admin")
        asked = wait_until(lambda: client.requests("workflow:ask_people").items, what="the script's question")
        client.answer(asked[0].id, {"action": "approve"})
        assert deployed.result(60) == "deployed 2.4, approved by admin"


@pytest.mark.process
def test_its_tests_pass_by_its_command(folder: Path) -> None:
    (block,) = [command for command in COMMANDS if command.startswith("pip install pytest")]
    command = block.splitlines()[-1]
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment(0), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout

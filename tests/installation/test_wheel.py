"""The archives of a release: what is in them, and the main job in an environment outside the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.documentation import test_django as django_page
from tests.e2e.server import free_port, wait_until
from wfdash import ADDRESS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.process
FLOW = """
from wfdash.workflow import Approval, Context, Workflow

expense = Workflow("expense")

@expense.step(start=True)
async def review(amount: int, ctx: Context) -> str:
    decision = await ctx.ask(Approval(subject=f"Pay {amount}?"))
    return decision.action
"""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


FOLDERS = {".ci", "checkpoints", "docs", "static", "templates", "tests", "wfdash"}
FILES = {".gitignore", "LICENSE", "Makefile", "manage.py", "pyproject.toml", *(path.name for path in ROOT.glob("*.md"))}
LEFT = ("data/secret_key", "data/wfdash.sqlite3-wal", "build/notes.txt", "todo.txt", "wfdash/.env", "tests/t.sqlite3")
"""What lies about in a checkout in which someone works."""


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source archive of a checkout in which someone has worked."""
    folder = tmp_path_factory.mktemp("sdist")
    checkout = folder / "checkout"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, checkout)
    for name in LEFT:
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text("private")
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "backend"), *needs]
    subprocess.run(pip, check=True, timeout=240)
    build = [sys.executable, "-c", f"import hatchling.build as h; h.build_sdist({str(folder)!r})"]
    env = os.environ | {"PYTHONPATH": str(folder / "backend")}
    subprocess.run(build, cwd=checkout, env=env, check=True, timeout=60)
    return next(folder.glob("wfdash-*.tar.gz"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment in which nothing is installed."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(sdist: Path, empty: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as a release would: from the source archive, beside nothing but what that asks for."""
    folder = tmp_path_factory.mktemp("wheel")
    # For an environment of its own pip would install the backend again.
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "--python", str(empty), "wheel", *options, str(sdist)]
    env = os.environ | {"PYTHONPATH": str(sdist.parent / "backend")}
    subprocess.run(command, env=env, check=True, timeout=240)
    return next(folder.glob("wfdash-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, empty: Path) -> Path:
    """Install the wheel into an environment that sees what it depends on; returns its Python."""
    command = [sys.executable, "-m", "pip", "--python", str(empty), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, str(wheel)], check=True, timeout=120)
    packages = next((empty.parents[1] / "lib").glob("python*/site-packages"))
    # As lines of a path file they are only places to import from: what makes this checkout importable is not read.
    others = [path for path in (*site.getsitepackages(), *sys.path) if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(dict.fromkeys(others)))
    return empty


def run(python: Path, *words: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(
        [python, "-m", "wfdash", *words], cwd=cwd, env=ENV, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done.stdout


ENV = {"PATH": os.environ["PATH"], "WFDASH_UNDO": "0"}


@contextmanager
def up(python: Path, folder: Path, port: int) -> Iterator[None]:
    with (folder / "log").open("a") as log:
        command = [python, "-m", "wfdash", "up", "--port", str(port), "--data", "data", "flow.py"]
        process = subprocess.Popen(command, cwd=folder, env=ENV, stdout=log, stderr=log)
        try:
            wait_until(lambda: process.poll() is not None or alive(port), seconds=200, what="the server", pause=0.2)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def alive(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=2)
    except OSError:
        return False
    return True


def read(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def call(port: int, token: str, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)


def ended(port: int, token: str, run_id: str) -> Any:
    run = call(port, token, "GET", f"/runs/{run_id}")
    return run if run["status"] in ("completed", "failed") else None


def waiting(port: int, token: str, run_id: str) -> Any:
    run = call(port, token, "GET", f"/runs/{run_id}")
    return run["requests"] if run["status"] == "waiting" else None


def test_the_source_archive_holds_what_is_tested_built_and_read_and_nothing_that_lies_about(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    files = [path for top in FOLDERS for path in (ROOT / top).rglob("*.*")]
    wanted = {name_of(path) for path in files if not {"__pycache__", "fonts"}.intersection(path.parts)}
    assert wanted - inside == set()
    assert {name.partition("/")[0] for name in inside} == FOLDERS | FILES | {"PKG-INFO"}
    assert inside.intersection(LEFT) == set()


def test_the_wheel_carries_templates_static_files_migrations_and_sample_data(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = [
        *(f"wfdash/files/{name_of(path)}" for path in (ROOT / "templates").rglob("*.*")),
        *(f"wfdash/files/{name_of(path)}" for path in (ROOT / "static").rglob("*.*")),
        *(name_of(path) for path in (ROOT / "checkpoints/migrations").glob("*.py")),
        *(name_of(path) for path in (ROOT / "wfdash/examples").rglob("*.*") if "__pycache__" not in path.parts),
    ]
    assert [path for path in wanted if path not in inside] == []
    assert [path for path in inside if path.startswith(("tests/", "docs/")) or path in LEFT] == []
    assert any(path.endswith(".dist-info/licenses/LICENSE") for path in inside)


def test_the_installed_wheel_starts_asks_takes_an_answer_and_restores(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    run(installed, "signin", "admin", "--data", "data", cwd=tmp_path, code=1)
    assert not (tmp_path / "data").exists(), "only up begins a data directory"
    port = free_port()
    with up(installed, tmp_path, port):
        page = read(port, "/sign-in/")
        assert "@layer" in read(port, re.findall(r'href="(/static/[^"]+\.css)"', page)[0])
        token = run(installed, "token", "create", "admin", "ci", "--data", "data", cwd=tmp_path).strip()
        run_id = call(port, token, "POST", "/runs", {"workflow": "expense", "message": 900})["id"]
        (question,) = wait_until(lambda: waiting(port, token, run_id), what="the question", pause=0.2)
        answer = {"value": {"action": "approve"}}
        assert call(port, token, "POST", f"/requests/{question['id']}/answer", answer)["decided"] is True
        assert wait_until(lambda: ended(port, token, run_id), what="the end", pause=0.2)["output"] == "approve"
        kept = call(port, token, "GET", f"/runs/{run_id}/checkpoints")["items"]
        parked = next(one for one in kept if one["waiting"])
        call(port, token, "POST", f"/runs/{run_id}/checkpoints/{parked['id']}/restore", {})
        assert wait_until(lambda: waiting(port, token, run_id), what="the question again", pause=0.2)
        link = run(installed, "signin", "admin", "--data", "data", cwd=tmp_path)
        assert link.startswith(f"http://127.0.0.1:{port}/sign-in/"), "it knows where the server listens"


def test_the_demo_opens_a_browser_and_leaves_nothing_behind(installed: Path, tmp_path: Path) -> None:
    opened, scratch = tmp_path / "opened", tmp_path / "scratch"
    scratch.mkdir()
    env = ENV | {"TMPDIR": str(scratch), "DISPLAY": ":0", "BROWSER": f"sh -c 'echo $0 >> {opened}' %s"}
    env["WFDASH_DATABASE"] = "postgresql://of.another.installation/wfdash"
    command = [installed, "-m", "wfdash", "demo", "--port", str(port := free_port())]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = next(line.split()[-1] for line in process.stdout if "works once" in line)
        browsed = wait_until(lambda: opened.exists() and opened.read_text().strip(), what="the browser")
        assert printed != browsed
        assert all("Sign in as" in read(port, link.partition(str(port))[2]) for link in (printed, browsed))
        process.terminate()
    assert (process.returncode, [*scratch.iterdir()]) == (0, [])


def test_a_new_project_names_the_wheel_that_it_was_made_with(installed: Path, wheel: Path, tmp_path: Path) -> None:
    run(installed, "new", "refunds", cwd=tmp_path)
    (needed,) = tomllib.loads((tmp_path / "refunds/pyproject.toml").read_text())["project"]["dependencies"]
    assert needed == (ADDRESS or f"wfdash @ {wheel.as_uri()}")
    options = ["--quiet", "--no-deps", "--target", str(tmp_path / "target")]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, needed], check=True, timeout=120)
    assert (tmp_path / "target/wfdash/__init__.py").exists()


def test_a_django_project_is_made_around_the_wheel_as_its_page_says_and_served_by_daphne(
    installed: Path, wheel: Path, tmp_path: Path
) -> None:
    env = ENV | {"PATH": f"{installed.parent}:{ENV['PATH']}"}
    for kind, title, text in django_page.BLOCKS:
        if kind == "python":
            django_page.write(tmp_path, title, text)
            continue
        for line in text.splitlines():
            if line.startswith("pip install"):
                assert line == f"pip install {ADDRESS or wheel.name}"
            elif not line.endswith("runserver"):
                # The environment sees what others have installed, but for their programs.
                line = line.replace("django-admin ", "python -m django ")
                subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, check=True, timeout=120)
    assert "`daphne mysite.asgi:application` |" in django_page.REST
    command = [installed, "-m", "daphne", "-p", str(port := free_port()), "mysite.asgi:application"]
    transport = httpx.HTTPTransport(retries=8)
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, cwd=tmp_path, env=env, stderr=log) as process:
        try:
            wait_until(lambda: "Listening" in (tmp_path / "log").read_text(), what="the server", pause=0.2)
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", transport=transport, follow_redirects=True
            ) as browser:
                form = str(browser.get("/people/").url)
                given = {"username": "ana", "password": "of-the-shop", **django_page.token(browser)}
                inbox = browser.post(form, data=given, timeout=60)
                assert (inbox.url.path, "<h1" in inbox.text and "Inbox" in inbox.text) == ("/people/", True)
                run_id = django_page.call(browser, "runs", {"workflow": "refund", "message": 5})["id"]
                found = browser.get(f"/people/api/v1/runs/{run_id}", params={"wait": 30}, timeout=60).json()
                assert found["status"] == "waiting"
                assert "Refund 5 EUR?" in browser.get("/people/").text
        finally:
            process.terminate()


def test_the_installed_names_are_two_and_lie_in_the_environment(installed: Path, wheel: Path, tmp_path: Path) -> None:
    code = "import checkpoints, wfdash; print(checkpoints.__file__, wfdash.__file__)"
    shown = subprocess.run([installed, "-c", code], cwd=tmp_path, env=ENV, capture_output=True, text=True, check=True)
    assert shown.stdout.count(str(installed.parents[1])) == 2
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"checkpoints", "wfdash"}

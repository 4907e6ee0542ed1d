from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests import nursery
from tests.e2e.server import wait_until
from tests.keys import AUDIT_KEY
from wfdash import cli

WORKFLOW = """
from wfdash.workflow import Workflow

wf = Workflow("mine", title="My own")

@wf.step(start=True)
def only(message: int) -> int:
    return message
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["up", "nothing.py"], "does not exist"),
        (["up", "--port", "0"], "not a port"),
        (["up", "--port", "http"], "not a port"),
    ],
)
def test_wrong_arguments_are_refused_in_words(arguments, words, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_listening_beyond_loopback_needs_host_names(monkeypatch, capsys) -> None:
    monkeypatch.delenv("WFDASH_HOSTS", raising=False)
    assert cli.main(["up", "--host", "0.0.0.0"]) == 2
    assert "WFDASH_HOSTS" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("WFDASH_KEEP_RUNS", "0", "WFDASH_KEEP_RUNS: '0' must be days, more than 0"),
        ("WFDASH_APPRISE", "ana", "WFDASH_APPRISE must be JSON"),
        ("WFDASH_RETENTION", "all", "WFDASH_RETENTION: not JSON"),
        ("WFDASH_ENCRYPTION_KEYS", "short", "WFDASH_ENCRYPTION_KEYS: a key needs"),
    ],
)
def test_a_setting_that_cannot_be_read_is_told_in_one_line(name, value, words, tmp_path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "wfdash", "up", "--data", str(tmp_path / "data")],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (told.returncode, told.stderr.startswith(words)) == (1, True), told.stderr
    assert told.stderr.count("\n") == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(data: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    return kept | {"WFDASH_AUDIT_KEY": AUDIT_KEY, "WFDASH_DATA": str(data), "PYTHONUNBUFFERED": "1"}


def up(data: Path, port: int, *more: str) -> subprocess.Popen[str]:
    # A shell's background jobs ignore Ctrl-C, and hand that on to whatever they start, these tests maybe.
    heed = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); import wfdash.cli as cli; "
    command = [sys.executable, "-c", heed + "sys.exit(cli.main())", "up", "--port", str(port), *more]
    return subprocess.Popen(command, env=environment(data), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def read_until(process: subprocess.Popen[str], words: str) -> str:
    seen = ""
    assert process.stdout is not None
    for line in process.stdout:
        seen += line
        if words in line:
            return line
    raise AssertionError(f"the server ended without saying {words!r}:\n{seen}")


def readiness(port: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.process
def test_up_serves_a_file_of_ones_own_prints_a_link_and_stops_gracefully(tmp_path: Path) -> None:
    source = tmp_path / "workflows.py"
    source.write_text(WORKFLOW)
    port = free_port()
    process = up(tmp_path / "data", port, str(source))
    try:
        line = read_until(process, "Sign in as")
        assert f"http://127.0.0.1:{port}/sign-in/" in line
        wait_until(lambda: readiness(port) == 200, what="readiness: its worker says that it lives")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def data(tmp_path: Path, sqlite_template: Path) -> Path:
    """Give a data directory whose database is migrated: the tests before have shown that ``up`` does that."""
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(sqlite_template, folder / "wfdash.sqlite3")
    return folder


@pytest.mark.process
def test_a_port_in_use_is_said_with_the_remedy(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = up(data, taken.getsockname()[1])
        output, _ = process.communicate(timeout=240)
    assert process.returncode == 1
    assert "--port" in output


@pytest.mark.process
def test_signin_prints_a_link_for_a_person_who_exists(data: Path) -> None:
    def wfdash(*arguments: str) -> subprocess.CompletedProcess[str]:
        return nursery.run([nursery.COMMAND, *arguments], env=environment(data), cwd=data.parent)

    assert wfdash("manage", "createsuperuser", "--noinput", "--username", "ana", "--email", "").returncode == 0
    link = wfdash("signin", "ana", "--base", "https://dash.example")
    assert link.stdout.startswith("https://dash.example/sign-in/")
    missing = wfdash("signin", "nobody")
    assert missing.returncode == 1
    assert "no active person named 'nobody': 'wfdash person list' names those" in missing.stderr


BLOCKING = """
import time
from pathlib import Path
from wfdash.workflow import Workflow

wf = Workflow("blocking")

@wf.step(start=True)
def block(path: str) -> int:
    Path(path).touch()
    time.sleep(60)
    return 1
"""

START = """
import django; django.setup()
from django.contrib.auth.models import User
from wfdash.access import viewer as access; from wfdash.actions.runs.lifecycle import start_run
start_run(access.viewer_for(User.objects.get(username="admin")), "blocking", {path!r})
"""


@pytest.mark.process
def test_a_step_that_blocks_its_thread_does_not_keep_the_server_from_stopping(tmp_path: Path, data: Path) -> None:
    source, entered = tmp_path / "workflows.py", tmp_path / "entered"
    source.write_text(BLOCKING)
    process = up(data, free_port(), str(source))
    try:
        read_until(process, "Sign in as")
        more = {"DJANGO_SETTINGS_MODULE": "wfdash.settings", "WFDASH_WORKFLOWS": str(source), "WFDASH_APPS": ""}
        start = [sys.executable, "-c", START.format(path=str(entered))]
        subprocess.run(start, env=environment(data) | more, check=True, timeout=240)
        deadline = time.monotonic() + 15
        while not entered.exists():
            assert time.monotonic() < deadline, "the step was never started"
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.communicate()


LEAVING = """
import atexit, threading, time
import django; django.setup()
from wfdash.worker.process import exit_process
class SlowToCollect:
    def __del__(self):
        time.sleep(300)
{holds}
atexit.register(print, "what is sent at the end")
exit_process(3)
"""


@pytest.mark.process
@pytest.mark.parametrize("holds", ["threading.Thread(target=time.sleep, args=[300]).start()", "kept = SlowToCollect()"])
def test_neither_threads_nor_objects_keep_the_process_from_ending(data: Path, holds: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEAVING.format(holds=holds)],
        env=environment(data) | {"DJANGO_SETTINGS_MODULE": "wfdash.settings"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (3, "what is sent at the end\n")

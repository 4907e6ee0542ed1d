"""A real ``wfdash up`` in a process of its own, on a free port, with its own data directory."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests import nursery
from tests.e2e.beside import Beside
from tests.keys import AUDIT_KEY

T = TypeVar("T")
COMMAND = nursery.COMMAND
LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in/\S+")
START_SECONDS = STOP_SECONDS = PATIENCE = 60.0
"""Limits that only a failure reaches, however busy the machine is."""
SIGN_IN = """
from django.contrib.auth.models import User
from wfdash.access.signin.links import create_link
print(create_link(User.objects.get(username={name!r}), base={base!r}))
"""

SESSION = """
import json
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.get(username={name!r}))
name = settings.SESSION_COOKIE_NAME
print(json.dumps({{"name": name, "value": client.cookies[name].value}}))
"""


PORTS: list[int] = []
"""Those of servers that have stopped: what a browser has cached of one, it need not fetch from the next."""


def free_port() -> int:
    """Return a port that no one listens on at this moment, if it can be that of a server that has stopped."""
    while PORTS:
        with contextlib.suppress(OSError):
            return bound(PORTS.pop())
    return bound(0)


def bound(port: int) -> int:
    """Return a port once it could be bound; raises ``OSError`` where it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return int(probe.getsockname()[1])


def wait_until(
    look: Callable[[], T], *, seconds: float = PATIENCE, what: str = "the condition", pause: float = 0.02
) -> T:
    """Look every ``pause`` seconds until something true is seen, and return it; fail after ``seconds``."""
    end = time.monotonic() + seconds
    while not (seen := look()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {seconds:g} s")
        time.sleep(pause)
    return seen


class Server:
    """Starts, stops and kills the server; its data directory outlives each process.

    ``template``: a migrated SQLite file to begin with, which spares the first start most of its time. ``undo``:
    seconds in which an answer may be taken back; most stories do without. ``asks``: other programs may ask people.
    """

    def __init__(
        self,
        data: Path,
        *,
        files: Sequence[Path] = (),
        demo: bool = False,
        template: Path | None = None,
        undo: float = 0,
        asks: bool = False,
    ) -> None:
        self.data = data
        self.port = free_port()
        self.output = data.with_name(f"{data.name}.log")
        self._files = [str(path) for path in files]
        self._demo = ["--demo"] if demo else []
        self._undo = str(undo)
        self._asks = "1" if asks else "0"
        self._process: nursery.Process | None = None
        self._read_from = 0
        self._beside: Beside | None = None
        if template is not None:
            data.mkdir(parents=True, exist_ok=True)
            shutil.copy(template, data / "wfdash.sqlite3")

    @property
    def url(self) -> str:
        """The dashboard's address, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def process_id(self) -> int:
        """The number of the process that serves; 0 while none does."""
        return 0 if self._process is None else self._process.pid

    @property
    def env(self) -> dict[str, str]:
        """The environment for every process on this data directory: nothing of the tests' own settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
        own = {
            "WFDASH_ASK_PEOPLE": self._asks,
            "WFDASH_AUDIT_KEY": AUDIT_KEY,
            "WFDASH_DATA": str(self.data),
            "WFDASH_UNDO": self._undo,
            "PYTHONUNBUFFERED": "1",
        }
        return kept | own

    def start(self) -> Server:
        """Start it and wait until it answers; its output goes on at the end of ``output``."""
        self._leave_beside()
        self._read_from = self.output.stat().st_size if self.output.exists() else 0
        command = [COMMAND, "up", "--port", str(self.port), "--data", str(self.data), *self._demo, *self._files]
        with self.output.open("ab") as log:
            self._process = nursery.start(command, stdout=log, stderr=log, env=self.env, cwd=self.data.parent)
        try:
            wait_until(self._answers, seconds=START_SECONDS, what="a server that answers")
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\n{self.log()}") from None
        return self

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"the server ended with {self._process.returncode}")
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            asked.request("GET", "/livez")
            return asked.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()

    def stop(self) -> int:
        """Ask it to stop (SIGTERM) and return its exit status; nothing happens if it does not run."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a word (SIGKILL)."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        self._leave_beside()
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
            raise AssertionError(f"the server did not stop within {STOP_SECONDS:g} s\n{self.log()}") from None

    def log(self) -> str:
        """Return what the latest process has printed."""
        if not self.output.exists():
            return ""
        return self.output.read_bytes()[self._read_from :].decode(errors="replace")

    def first_link(self) -> str:
        """Return the one-time sign-in link that the server printed when it came up."""
        return wait_until(lambda: LINK.search(self.log()), what="the sign-in link").group()

    def link_for(self, name: str) -> str:
        """Return a fresh one-time sign-in link for a person."""
        return shell(self, SIGN_IN.format(name=name, base=self.url))

    def session_of(self, name: str) -> dict[str, str]:
        """Return the cookie of a session of a person: its name and its value."""
        return dict(json.loads(shell(self, SESSION.format(name=name))))

    def shell(self, code: str) -> str:
        """Run Python beside the server, with Django set up, and return what it printed."""
        if self._beside is None:
            served = {"WFDASH_WORKFLOWS": os.pathsep.join(self._files)} if self._files else {}
            self._beside = Beside(self.env | served, self.data.parent)
        return self._beside.run(code)

    def _leave_beside(self) -> None:
        """End the process beside the server: it knows the served files as they were when it began."""
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.close()


def shell(server: Server, code: str) -> str:
    """Run Python beside the server, with Django set up, and return what it printed, without the newline."""
    return server.shell(code).strip()


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Keep a server up in the meantime; it must stop when it is asked to, and have nothing to complain of."""
    yield server.start()
    assert server.stop() == 0, server.log()
    assert "Traceback" not in server.log(), server.log()
    PORTS.append(server.port)


@pytest.fixture(name="server", scope="module")
def demo_of_all(shared_demo: Server) -> Server:
    """What a file imports whose stories change nothing, or look at what they started themselves."""
    return shared_demo


@pytest.fixture(name="server", scope="module")
def gate_of_all(shared_gate: Server) -> Server:
    """The same of the gate alone: each story asks under a subject of its own."""
    return shared_gate

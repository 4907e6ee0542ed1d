"""A data directory with its database, the processes that work on it, and functions run beside them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import nursery
from tests.e2e.server import COMMAND, Server
from tests.faults.clocks.lies import faked
from tests.faults.tables import Tables
from tests.keys import AUDIT_KEY

ROOT = Path(__file__).resolve().parents[2]
GRAPHS = Path(__file__).with_name("graphs.py")
NO_DATABASE = ""
"""SQLite in the data directory."""


class Process:
    """A process of its own, known by its id; its output goes to the end of a file."""

    def __init__(self, command: Sequence[str], env: dict[str, str], output: Path) -> None:
        self.output = output
        self._command = list(command)
        self._env = env
        self._process: nursery.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Process:
        """Start it; does not wait for anything."""
        with self.output.open("ab") as log:
            self._process = nursery.start(self._command, stdout=log, stderr=log, env=self._env, cwd=ROOT)
        return self

    def wait(self, seconds: float = 60.0) -> int:
        """Return its exit status once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(seconds)

    def has_ended(self) -> bool:
        """Say whether it was started and has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without a word; nothing happens if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class World:
    """One data directory. ``database``: a ``postgresql://`` URL, SQLite if empty.

    ``template``: a migrated SQLite file to begin with; ``migrated`` says that the database needs no migration.
    """

    def __init__(
        self, folder: Path, *, database: str = NO_DATABASE, template: Path | None = None, migrated: bool = False
    ) -> None:
        self.data = folder / "data"
        self.ledger = folder / "ledger.jsonl"
        self.commits = folder / "commits.jsonl"
        self.database = database
        self.graphs = GRAPHS
        """The file of the workflows that are served."""
        self.clock: Path | None = None
        """A file that says how wrong the clock of the server is: see ``lies``."""
        self.more: dict[str, str] = {}
        """Variables that its processes have besides."""
        self.data.mkdir(parents=True, exist_ok=True)
        if template is not None:
            shutil.copy(template, self.sqlite_file)
        elif not migrated:
            self.run("migrate", "-v0")

    @property
    def sqlite_file(self) -> Path:
        return self.data / "wfdash.sqlite3"

    @property
    def env(self) -> dict[str, str]:
        """The environment of every process on this data directory: nothing of the tests' own settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
        ours = {"WFDASH_DATA": str(self.data), "WFDASH_WORKFLOWS": str(self.graphs), "WFDASH_APPS": ""}
        ours |= {
            "WFDASH_AUDIT_KEY": AUDIT_KEY,
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "wfdash.settings",
        }
        if self.database:
            ours |= {"WFDASH_DATABASE": self.database, "WFDASH_EMBED": "0"}
        return kept | ours | self.more

    def tables(self) -> Tables:
        return Tables(self.database or self.sqlite_file)

    def run(self, *arguments: str) -> str:
        """Run a management command to its end and return what it printed."""
        return self._finish([COMMAND, "manage", *arguments])

    def play(self, function: str, **given: Any) -> Any:
        """Run ``tests.faults.plays.<function>(**given)`` in a process with Django set up; returns its JSON."""
        return json.loads(self._finish(self._play(function, given)).splitlines()[-1])

    def start_play(self, function: str, **given: Any) -> Process:
        """Start such a function without waiting for its end."""
        return Process(self._play(function, given), self.env, self.data.with_name(f"{function}.log")).start()

    def _play(self, function: str, given: dict[str, Any]) -> list[str]:
        return [sys.executable, "-W", "ignore", "-m", "tests.faults.plays", function, json.dumps(given)]

    def _finish(self, command: list[str]) -> str:
        done = nursery.run(command, env=self.env, cwd=ROOT)
        if done.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr[-4000:]}")
        return done.stdout

    def server(self) -> FaultServer:
        """Return a server on this world; with SQLite it drives runs, with PostgreSQL it serves pages only."""
        return FaultServer(self)

    def worker(
        self,
        name: str,
        *,
        ttl: float = 2.0,
        heartbeat: float = 0.5,
        shift: float = 0.0,
        clock: Path | None = None,
        drain: float | None = None,
    ) -> Process:
        """Return a ``manage.py work`` with a short lease that notes every commit.

        Its clock is wrong by ``shift`` seconds, or by what stands in the file ``clock``. ``drain``: for how long
        running steps may end when it is stopped, in seconds; as long as in any worker if not given.
        """
        given = {"notes": str(self.commits), "ttl": ttl, "heartbeat": heartbeat, "shift": shift}
        command = [sys.executable, "-W", "ignore", "-m", "tests.faults.clocks.noting", json.dumps(given)]
        more = {} if drain is None else {"WFDASH_DRAIN": str(drain)}
        return Process(command, self.env | faked(clock) | more, self.data.with_name(f"worker-{name}.log"))


class FaultServer(Server):
    """``wfdash up`` on a world; may be started without waiting until it answers."""

    def __init__(self, world: World) -> None:
        super().__init__(world.data, files=[world.graphs])
        self._world = world

    @property
    def env(self) -> dict[str, str]:
        ours = self._world.env | faked(self._world.clock)
        return {name: value for name, value in ours.items() if name != "WFDASH_WORKFLOWS"}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait(self, seconds: float = 60.0) -> int:
        """Return its exit status once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(seconds)

    def launch(self) -> None:
        """Start it, and do not wait."""
        self._read_from = self.output.stat().st_size if self.output.exists() else 0
        command = [COMMAND, "up", "--port", str(self.port), "--data", str(self.data), *self._files]
        with self.output.open("ab") as log:
            self._process = nursery.start(command, stdout=log, stderr=log, env=self.env, cwd=ROOT)

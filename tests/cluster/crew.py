"""Processes on one PostgreSQL database, each with a data directory of its own."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from pathlib import Path

from tests import nursery
from tests.e2e.server import COMMAND, free_port
from tests.faults.worlds import ROOT, World

KEY = "one-key-for-every-process-of-this-test"
SERVERS = frozenset({"up", "web"})


class Crew:
    """Starts processes by name. ``stop`` ends those that run."""

    def __init__(self, folder: Path, database: str, *, program: Sequence[str] = (COMMAND,), **more: str) -> None:
        """``more``: variables of all of them. ``program``: what runs instead of ``wfdash``."""
        self.folder, self.database = folder, database
        self.ports: dict[str, int] = {}
        self.running: dict[str, nursery.Process] = {}
        self._more, self._program = more, program

    def start(self, name: str, verb: str, *arguments: str, **more: str) -> nursery.Process:
        """Start ``wfdash VERB``; a server listens on a port of its own, the same each time."""
        world = World(self.folder / name, database=self.database, migrated=True)
        env = world.env | {"WFDASH_SECRET_KEY": KEY} | self._more | more
        del env["WFDASH_EMBED"]
        if verb in SERVERS:
            self.ports.setdefault(name, free_port())
            arguments = ("--port", str(self.ports[name]), *arguments)
        with self.log(name).open("ab") as log:
            started = nursery.start([*self._program, verb, *arguments], stdout=log, stderr=log, env=env, cwd=ROOT)
        self.running[name] = started
        return started

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text() if self.log(name).exists() else ""

    def get(self, name: str, path: str) -> int:
        """Return the status of an answer of a server, 0 if there is none."""
        asked = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=10)
        try:
            asked.request("GET", path)
            return asked.getresponse().status
        except OSError:
            return 0
        finally:
            asked.close()

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

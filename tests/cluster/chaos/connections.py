"""How many connections to the database each process has at most."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter

import psycopg

from tests.faults.tables import Tables

LOOK_SECONDS = 1.0
UNNOTICED = 4
"""Connections that a process has given up and the server still counts."""
BOUNDS = {"web": 28 + UNNOTICED, "worker": 36 + UNNOTICED}
"""As docs/processes.md counts them."""
NAMES = "SELECT application_name AS name FROM pg_stat_activity WHERE starts_with(application_name, 'wfdash ')"


class Counting(threading.Thread):
    """Counts again and again; ``most``: role -> connections of the process that had the most at a time."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(name="connections", daemon=True)
        self.most: Counter[str] = Counter()
        self._tables = tables
        self.over = threading.Event()

    def run(self) -> None:
        """Count until told to end."""
        while not self.over.wait(LOOK_SECONDS):
            with contextlib.suppress(psycopg.OperationalError):
                self._look()

    def _look(self) -> None:
        found: Counter[tuple[str, str]] = Counter()
        for row in self._tables.read(NAMES):
            _, role, *_, process = row["name"].split()
            found[role, process] += 1
        for (role, _), count in found.items():
            self.most[role] = max(self.most[role], count)

    def excess(self) -> list[str]:
        """Say which processes had more than they may."""
        most = {role: self.most[role] for role in BOUNDS}
        return [f"{most[role]} of a {role}, at most {bound}" for role, bound in BOUNDS.items() if most[role] > bound]

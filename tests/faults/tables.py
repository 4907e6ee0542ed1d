"""Reads the tables and nothing else: plain SQL over a connection of its own, without Django and without wfdash."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import psycopg

Row = dict[str, Any]
JSON_COLUMNS = {"input", "output", "error", "data", "card", "value", "result"}


class Tables:
    """The tables of one database, as dicts. ``where`` is a file or a ``postgresql://`` URL."""

    def __init__(self, where: Path | str) -> None:
        self._where = where

    def read(self, sql: str, *parameters: Any) -> list[Row]:
        if isinstance(self._where, Path):
            rows, names = self._sqlite(sql, parameters)
            return [decoded(dict(zip(names, row, strict=True))) for row in rows]
        rows, names = self._postgres(sql.replace("?", "%s"), parameters)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _sqlite(self, sql: str, parameters: tuple[Any, ...]) -> tuple[list[Any], list[str]]:
        connection = sqlite3.connect(self._where, timeout=20, isolation_level=None)
        try:
            cursor = connection.execute(sql, parameters)
            return cursor.fetchall(), [column[0] for column in cursor.description]
        finally:
            connection.close()

    def _postgres(self, sql: str, parameters: tuple[Any, ...]) -> tuple[list[Any], list[str]]:
        with psycopg.connect(str(self._where), connect_timeout=5) as connection:
            cursor = connection.execute(sql, parameters)  # type: ignore[arg-type]
            return cursor.fetchall(), [column.name for column in cursor.description or ()]

    def change(self, sql: str, *parameters: Any) -> None:
        """Change rows behind everyone's back: for damage."""
        if isinstance(self._where, Path):
            connection = sqlite3.connect(self._where, timeout=20, isolation_level=None)
            connection.execute(sql, parameters)
            connection.close()
            return
        with psycopg.connect(str(self._where)) as connection:
            connection.execute(sql.replace("?", "%s"), parameters)  # type: ignore[arg-type]

    def runs(self) -> list[Row]:
        return self.read("SELECT * FROM checkpoints_run ORDER BY id")

    def run(self, run: str) -> Row:
        return self.read("SELECT * FROM checkpoints_run WHERE id=?", run)[0]

    def events(self, run: str) -> list[Row]:
        """Its events in order."""
        return self.read("SELECT * FROM checkpoints_event WHERE run_id=? ORDER BY seq", run)

    def checkpoints(self, run: str) -> list[Row]:
        """Its checkpoints in order, without content."""
        return self.read(
            "SELECT id, n, parent, step, reason FROM checkpoints_checkpoint WHERE run_id=? ORDER BY n", run
        )

    def requests(self, run: str) -> list[Row]:
        """Its requests with the answer that won, if there is one."""
        return self.read(
            "SELECT q.*, a.value, a.verdict, a.request_id AS answer FROM checkpoints_humanrequest q"
            " LEFT JOIN checkpoints_answer a ON a.request_id=q.id WHERE q.run_id=? ORDER BY q.created",
            run,
        )

    def open_requests(self) -> list[Row]:
        """Those that wait for people."""
        return self.read(
            "SELECT q.*, r.input FROM checkpoints_humanrequest q JOIN checkpoints_run r ON r.id=q.run_id"
            " WHERE q.closed IS NULL AND q.answered IS NULL AND r.phase NOT IN ('completed','cancelled')"
        )

    def effects(self, run: str) -> list[Row]:
        """Its recorded calls."""
        return self.read("SELECT * FROM checkpoints_effect WHERE run_id=? ORDER BY id", run)

    def claims(self) -> list[Row]:
        return self.read("SELECT * FROM checkpoints_claim")

    def count(self, phases: str = "'completed'") -> int:
        """How many runs are in these phases."""
        return int(self.read(f"SELECT count(*) AS n FROM checkpoints_run WHERE phase IN ({phases})")[0]["n"])


def decoded(row: Row) -> Row:
    """Return the row with its JSON columns as values: SQLite keeps them as text."""
    for name in JSON_COLUMNS & row.keys():
        if isinstance(row[name], str):
            row[name] = json.loads(row[name])
    return row

"""The floor: the rows that wfdash wrote, written again by bare ``sqlite3`` in the same transactions.

The recording is read from a database that a chain of steps has just filled: one transaction per checkpoint, with the
events, effects and chunks that came with it, and the run row's update. Played back with WAL and synchronous=FULL.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Statement = tuple[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The schema, the run's first row, and what each commit wrote."""

    schema: tuple[str, ...]
    run: Statement
    commits: tuple[tuple[Statement, ...], ...]


def read_recording(database: Path, run: str) -> Recording:
    """Read what one run wrote, commit by commit."""
    connection = sqlite3.connect(database)
    tables = [
        row[0]
        for row in connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND tbl_name LIKE 'checkpoints_%' ORDER BY type DESC"
        )
    ]
    first = _rows(connection, "checkpoints_run", "id = ?", (run,))
    chunks = _rows(connection, "checkpoints_chunk", "family = ?", (run,))
    heads = connection.execute(
        "SELECT n, seq FROM checkpoints_checkpoint WHERE run_id = ? ORDER BY n", (run,)
    ).fetchall()
    commits = []
    before = (0, 0)
    for place, head in enumerate(heads):
        commits.append(tuple(_commit(connection, run, before, head, _share(chunks, place, len(heads)))))
        before = head
    connection.close()
    return Recording(schema=tuple(tables), run=first, commits=tuple(commits))


def _rows(connection: sqlite3.Connection, table: str, where: str, values: Sequence[Any]) -> Statement:
    cursor = connection.execute(f"SELECT * FROM {table} WHERE {where}", values)
    marks = ",".join("?" * len(cursor.description))
    return f"INSERT INTO {table} VALUES ({marks})", cursor.fetchall()


def _share(chunks: Statement, place: int, count: int) -> Statement:
    insert, rows = chunks
    return insert, rows[len(rows) * place // count : len(rows) * (place + 1) // count]


def _commit(
    connection: sqlite3.Connection, run: str, before: tuple[int, int], head: tuple[int, int], chunks: Statement
) -> list[Statement]:
    n, seq = head
    update = "UPDATE checkpoints_run SET n = ?, seq = ?, updated = ? WHERE id = ? AND seq = ?"
    written = [
        (update, [(n, seq, "2026-01-01 00:00:00.000000", run, before[1])]),
        _rows(connection, "checkpoints_checkpoint", "run_id = ? AND n = ?", (run, n)),
        _rows(connection, "checkpoints_event", "run_id = ? AND seq > ? AND seq <= ?", (run, before[1], seq)),
        _rows(connection, "checkpoints_effect", "run_id = ? AND n = ?", (run, n)),
        chunks,
    ]
    return [(sql, rows) for sql, rows in written if rows]


def play_grouped(recordings: Sequence[Recording], path: Path) -> float:
    """Return commits per second when the same commit of all runs shares one transaction."""
    connection = _open(recordings, path)
    started = time.perf_counter()
    for group in zip(*(recording.commits for recording in recordings), strict=True):
        _write(connection, group)
    elapsed = time.perf_counter() - started
    connection.close()
    return sum(len(recording.commits) for recording in recordings) / elapsed


def _open(recordings: Sequence[Recording], path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    for sql in recordings[0].schema:
        connection.execute(sql)
    for recording in recordings:
        connection.executemany(*recording.run)
    connection.execute("UPDATE checkpoints_run SET n = 0, seq = 0")
    return connection


def _write(connection: sqlite3.Connection, commits: Sequence[Sequence[Statement]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for commit in commits:
        for sql, rows in commit:
            if connection.executemany(sql, rows).rowcount != len(rows):
                raise RuntimeError(f"not every row was written: {sql}")
    connection.execute("COMMIT")

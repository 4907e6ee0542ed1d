"""All ports in one SQLite file, without Django: for notebooks, scripts and libraries. Survives a killed process.

Several processes may share the file, on one machine: SQLite's locks do not work over network file systems. The
statements are the ones of the dashboard's database; only people have no table of their own.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Self

from checkpoints.canonical import dumps
from checkpoints.durability import Durability, parse_durability
from checkpoints.errors import Conflict, Incompatible, InvalidConfig, NotFound
from checkpoints.ids import RequestKey, RunId
from checkpoints.records import Json
from checkpoints.scripted import Database, ScriptedStorage
from checkpoints.scripts import Script, Scripts
from checkpoints.seal import Sealer, sealer_of
from checkpoints.sql import SQLITE, Statements
from checkpoints.sqlite import Gate, SqliteDatabase, connect, roll_back

VERSION = 2
"""Kept in the file as ``user_version``."""

SCHEMA = """
CREATE TABLE checkpoints_run (
    id TEXT PRIMARY KEY, workflow TEXT NOT NULL, version TEXT NOT NULL, engine TEXT NOT NULL, title TEXT NOT NULL,
    phase TEXT NOT NULL, input TEXT, output TEXT, error TEXT, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    epoch INTEGER NOT NULL, attempts INTEGER NOT NULL, wake_at TEXT, retry TEXT, family TEXT NOT NULL,
    forked_from TEXT, acted_by TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL, finished TEXT);
CREATE INDEX run_by_phase ON checkpoints_run (phase);
CREATE INDEX run_to_wake ON checkpoints_run (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX run_by_family ON checkpoints_run (family);
CREATE TABLE checkpoints_claim (
    run_id TEXT PRIMARY KEY, token TEXT NOT NULL, worker TEXT NOT NULL, epoch INTEGER NOT NULL, ttl REAL NOT NULL,
    expires TEXT NOT NULL);
CREATE TABLE checkpoints_checkpoint (
    id TEXT PRIMARY KEY, run_id TEXT NOT NULL, n INTEGER NOT NULL, parent TEXT, workflow TEXT NOT NULL,
    version TEXT NOT NULL, engine TEXT NOT NULL, step TEXT, reason TEXT NOT NULL, label TEXT, created TEXT NOT NULL,
    format INTEGER NOT NULL, size INTEGER NOT NULL, clean INTEGER NOT NULL, seq INTEGER NOT NULL, flaw TEXT NOT NULL,
    waiting INTEGER NOT NULL, body TEXT NOT NULL, UNIQUE (run_id, n));
CREATE INDEX checkpoint_waiting ON checkpoints_checkpoint (run_id, n) WHERE waiting > 0;
CREATE INDEX checkpoint_labelled ON checkpoints_checkpoint (run_id, n) WHERE label IS NOT NULL;
CREATE TABLE checkpoints_chunk (
    family TEXT NOT NULL, hash TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (family, hash));
CREATE TABLE checkpoints_humanrequest (
    id TEXT PRIMARY KEY, run_id TEXT NOT NULL, key TEXT NOT NULL, workflow TEXT NOT NULL, step TEXT NOT NULL,
    kind TEXT NOT NULL, card TEXT NOT NULL, answer_schema TEXT NOT NULL, "by" TEXT NOT NULL, not_by TEXT NOT NULL,
    due TEXT, policy TEXT, alarm TEXT, risk INTEGER, created TEXT NOT NULL, answered TEXT, closed TEXT,
    closed_as TEXT NOT NULL);
CREATE UNIQUE INDEX one_pending_request_per_key ON checkpoints_humanrequest (run_id, key) WHERE closed IS NULL;
CREATE TABLE checkpoints_answer (request_id TEXT PRIMARY KEY, value TEXT, by_id TEXT, at TEXT NOT NULL);
CREATE TABLE checkpoints_event (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, step TEXT,
    data TEXT NOT NULL, at TEXT NOT NULL, UNIQUE (run_id, seq));
CREATE TABLE checkpoints_effect (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, key TEXT NOT NULL, step TEXT NOT NULL, name TEXT NOT NULL,
    once INTEGER NOT NULL, state TEXT NOT NULL, result TEXT, n INTEGER NOT NULL, at TEXT NOT NULL);
CREATE INDEX effect_by_key ON checkpoints_effect (run_id, key);
PRAGMA user_version=2
"""

UPGRADES = {
    1: """
ALTER TABLE checkpoints_humanrequest ADD COLUMN policy TEXT;
ALTER TABLE checkpoints_humanrequest ADD COLUMN alarm TEXT;
ALTER TABLE checkpoints_humanrequest ADD COLUMN risk INTEGER;
PRAGMA user_version=2
"""
}
"""From each earlier version to the next."""

PENDING = (
    "SELECT q.id, a.at FROM checkpoints_humanrequest q LEFT JOIN checkpoints_answer a ON a.request_id=q.id"
    " WHERE q.run_id=? AND q.key=? AND q.closed IS NULL"
)
ANSWER = SQLITE.sql("INSERT INTO checkpoints_answer (request_id, value, by_id, at) VALUES (?,?,?,{now})")
ANSWERED = SQLITE.sql("UPDATE checkpoints_humanrequest SET answered={now} WHERE id=?")


class FileStorage(ScriptedStorage):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` in a SQLite file. For any loop and thread.

    What a call returned is on the disk: WAL with ``synchronous=FULL``. Use it with ``async with``, or call
    ``aclose()`` once it is no longer needed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        encryption_keys: str = "",
        durability: Durability | str = Durability.FULL,
    ) -> None:
        """The file is created at first use, its folder is not. ``InvalidConfig`` for a database in memory.

        ``encryption_keys``: comma-separated; the first seals, all open, ``plain`` stands for what is not encrypted.
        ``durability``: with ``relaxed`` a power failure may undo the last steps, but nothing that a drive's end, an
        answer or a ``once`` call wrote.
        """
        super().__init__(sealer_of(encryption_keys))
        self._durability = parse_durability(durability, name="durability")
        self.path = Path(path)
        if str(path) in ("", ":memory:"):
            raise InvalidConfig(f"path={str(path)!r}: give a file, or use MemoryStorage")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def answer(self, run: RunId, key: RequestKey, value: Json, *, by: str | None = None) -> None:
        """Accept an answer to a pending request and make the run ready. ``NotFound``, ``Conflict`` if answered."""
        text = dumps(value).decode()
        await self._write(lambda s: answer(s, self._sealer, run, key, text, by))

    def _open(self) -> Database:
        prepare(self.path)
        scripts = Scripts(SQLITE, Statements(SQLITE, users=None))
        return SqliteDatabase(str(self.path), scripts, Gate(), durability=self._durability)


def answer(scripts: Scripts, sealer: Sealer, run: RunId, key: RequestKey, value: str, by: str | None) -> Script[None]:
    """Insert an answer and wake the run that waits for it."""
    (rows,) = yield [(PENDING, (run, key))]
    if not rows:
        raise NotFound("the run has no pending request of that key", run=run, key=key)
    ((request, answered),) = rows
    if answered is not None:
        raise Conflict("the request is already answered", run=run, key=key)
    stored = sealer.seal_document(value, "answer", request, "value")
    yield [(ANSWER, (request, stored, by)), (ANSWERED, (request,)), (scripts.sql.woken_by_answer, (run, run))]


def prepare(path: Path) -> None:
    """Create the tables if the file is new, add what later versions have if it is old.

    ``Incompatible`` if a later version wrote it, ``InvalidConfig`` if it is somebody else's database.
    """
    connection = connect(str(path))
    try:
        if version_of(connection) != VERSION:
            create(connection, path)
    finally:
        connection.close()


def create(connection: sqlite3.Connection, path: Path) -> None:
    """Create or upgrade the tables, unless another process was faster."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)
        if version > VERSION:
            raise Incompatible(f"{path} has version {version}, this code reads up to {VERSION}: upgrade wfdash")
        if version == 0:
            refuse_foreign(connection, path)
            run_all(connection, SCHEMA)
        elif version < VERSION:
            for earlier in range(version, VERSION):
                run_all(connection, UPGRADES[earlier])
        connection.execute("COMMIT")
    finally:
        roll_back(connection)


def run_all(connection: sqlite3.Connection, script: str) -> None:
    """Run several statements in the transaction that is open."""
    for statement in script.split(";"):
        connection.execute(statement)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema's version; 0 for a new file, or somebody else's."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Raise ``InvalidConfig`` if there are tables that are not ours to add to."""
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise InvalidConfig(f"path={str(path)!r}: another program's database, the dashboard's perhaps; give a new file")

"""The tables of a SQLite database without Django, and the upgrades of older files."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from checkpoints.errors import Incompatible, InvalidConfig
from checkpoints.sql.sqlite import roll_back

VERSION = 7
"""Stored in the file as ``user_version``."""

SCHEMA = """
CREATE TABLE checkpoints_run (
    id TEXT PRIMARY KEY, workflow TEXT NOT NULL, version TEXT NOT NULL, engine TEXT NOT NULL, title TEXT NOT NULL,
    phase TEXT NOT NULL, input TEXT, output TEXT, error TEXT, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    epoch INTEGER NOT NULL, attempts INTEGER NOT NULL, wake_at TEXT, retry TEXT, family TEXT NOT NULL,
    forked_from TEXT, acted_by TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL, finished TEXT,
    for_workers INTEGER NOT NULL DEFAULT 1, priority INTEGER NOT NULL DEFAULT 0, ready_at TEXT);
CREATE INDEX run_by_phase ON checkpoints_run (phase);
CREATE INDEX run_to_take ON checkpoints_run (priority DESC, COALESCE(ready_at, created), workflow)
    WHERE phase = 'ready' AND for_workers;
CREATE INDEX run_to_wake ON checkpoints_run (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX run_by_family ON checkpoints_run (family);
CREATE TABLE checkpoints_claim (
    run_id TEXT PRIMARY KEY, token TEXT NOT NULL, worker TEXT NOT NULL, epoch INTEGER NOT NULL, ttl REAL NOT NULL,
    expires TEXT NOT NULL);
CREATE TABLE checkpoints_checkpoint (
    id TEXT PRIMARY KEY, run_id TEXT NOT NULL, n INTEGER NOT NULL, parent TEXT, workflow TEXT NOT NULL,
    version TEXT NOT NULL, engine TEXT NOT NULL, step TEXT, reason TEXT NOT NULL, label TEXT, created TEXT NOT NULL,
    format INTEGER NOT NULL, size INTEGER NOT NULL, clean INTEGER NOT NULL, seq INTEGER NOT NULL, flaw TEXT NOT NULL,
    waiting INTEGER NOT NULL, facts TEXT, body TEXT NOT NULL, UNIQUE (run_id, n));
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
CREATE TABLE checkpoints_answer (request_id TEXT PRIMARY KEY, value TEXT, by_id TEXT, at TEXT NOT NULL,
    digest TEXT NOT NULL DEFAULT '');
CREATE TABLE checkpoints_event (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, step TEXT,
    data TEXT NOT NULL, at TEXT NOT NULL, UNIQUE (run_id, seq));
CREATE TABLE checkpoints_effect (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, key TEXT NOT NULL, step TEXT NOT NULL, name TEXT NOT NULL,
    once INTEGER NOT NULL, state TEXT NOT NULL, result TEXT, n INTEGER NOT NULL, at TEXT NOT NULL);
CREATE INDEX effect_by_key ON checkpoints_effect (run_id, key);
CREATE TABLE checkpoints_leader (code TEXT PRIMARY KEY, worker TEXT NOT NULL, until TEXT NOT NULL);
PRAGMA user_version=7
"""

UPGRADES = {
    1: """
ALTER TABLE checkpoints_humanrequest ADD COLUMN policy TEXT;
ALTER TABLE checkpoints_humanrequest ADD COLUMN alarm TEXT;
ALTER TABLE checkpoints_humanrequest ADD COLUMN risk INTEGER;
PRAGMA user_version=2
""",
    2: """
ALTER TABLE checkpoints_checkpoint ADD COLUMN facts TEXT;
PRAGMA user_version=3
""",
    3: """
ALTER TABLE checkpoints_run ADD COLUMN for_workers INTEGER NOT NULL DEFAULT 1;
PRAGMA user_version=4
""",
    4: """
ALTER TABLE checkpoints_run ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checkpoints_run ADD COLUMN ready_at TEXT;
CREATE INDEX run_to_take ON checkpoints_run (priority DESC, COALESCE(ready_at, created), workflow)
    WHERE phase = 'ready' AND for_workers;
PRAGMA user_version=5
""",
    5: """
ALTER TABLE checkpoints_answer ADD COLUMN digest TEXT NOT NULL DEFAULT '';
PRAGMA user_version=6
""",
    6: """
CREATE TABLE checkpoints_leader (code TEXT PRIMARY KEY, worker TEXT NOT NULL, until TEXT NOT NULL);
PRAGMA user_version=7
""",
}
"""From each earlier version to the next."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Create all tables in an empty database."""
    run_all(connection, SCHEMA)


def bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    """Create or upgrade the tables in one transaction, unless another process was faster.

    ``Incompatible`` if a later version wrote them, ``InvalidConfig`` if the database is another program's.
    """
    if version_of(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = readable_version(connection, path)
        if version == 0:
            create_tables(connection)
        elif version < VERSION:
            for earlier in range(version, VERSION):
                run_all(connection, UPGRADES[earlier])
        connection.execute("COMMIT")
    finally:
        roll_back(connection)


def run_all(connection: sqlite3.Connection, script: str) -> None:
    """Run several statements in the open transaction."""
    for statement in script.split(";"):
        connection.execute(statement)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema's version; 0 for a new file, or another program's."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_old(connection: sqlite3.Connection, path: Path) -> None:
    """Raise ``Incompatible`` if the tables are not those of this version, and otherwise as ``bring_up_to_date``."""
    version = readable_version(connection, path)
    if version < VERSION:
        words = f"open a copy that may be written, which gets version {VERSION}"
        raise Incompatible(f"{path} has version {version} and is read-only: {words}")


def readable_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema's version; 0 for an empty file. Raises as ``bring_up_to_date`` does."""
    version = version_of(connection)
    if version > VERSION:
        raise Incompatible(f"{path} has version {version}, this code reads up to {VERSION}: upgrade wfdash")
    if version == 0 and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise InvalidConfig(f"path={str(path)!r}: another program's database, such as the dashboard's; give a new file")
    return version

"""The bench's database: a new SQLite file with all tables of the project, in the place of its own database."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.utils import ConnectionHandler

from checkpoints.database.alias import alias, connection
from checkpoints.database.storage import DatabaseStorage, scripts_for
from checkpoints.sql.durability import Durability
from checkpoints.sql.sqlite import executor
from checkpoints.sql.sqlite.executor import SqliteDatabase
from checkpoints.sql.statements import SQLITE
from checkpoints.sql.writes import Database
from wfdash.testing.sqlite.base import clock, opened

ENGINE = "wfdash.testing.sqlite"
MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of its own is made there)
OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL;"}
_numbers = itertools.count(1)
_in_use: list[str] = []


class Redirected(ConnectionHandler):
    """Django's connections while a bench is open: the default database and wfdash's are its one, in every thread."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(_in_use[-1] if _in_use and name in {DEFAULT_DB_ALIAS, alias()} else name)


@contextmanager
def own_database(folder: Path) -> Iterator[None]:
    """Put a new database in the place of the default one, and of wfdash's. Call it outside of event loops."""
    file = folder / "bench.sqlite3"
    shutil.copy(template(), file)
    with redirected(file):
        yield


@contextmanager
def redirected(file: Path) -> Iterator[None]:
    """Let the default database, and wfdash's, be this file, as long as it is open."""
    name = f"wfdash bench {next(_numbers)}"
    connections.settings[name] = {"ENGINE": ENGINE, "NAME": str(file), "OPTIONS": OPTIONS}
    connections.configure_settings(connections.settings)
    usual = type(connections)
    connections.__class__ = Redirected
    _in_use.append(name)
    try:
        yield
    finally:
        connections[name].close()
        _in_use.remove(name)
        while opened:
            opened.pop().close()
        connections.__class__ = usual
        del connections.settings[name]


def new_folder() -> Path:
    """Return a new folder, in memory where that can be had."""
    return Path(tempfile.mkdtemp(prefix="wfdash-bench-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))


@lru_cache(maxsize=1)
def template() -> Path:
    """Return a file with the tables of all installed apps, made once per process and removed with it."""
    import atexit

    folder = new_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "template.sqlite3"
    with redirected(file):
        _create_tables()
    return file


def _create_tables() -> None:
    """Create what migrations lead to, without their history: that takes seconds."""
    from checkpoints.models import AuditHead
    from checkpoints.models.fields import current_keyring

    with connection().schema_editor() as editor:
        for model in apps.get_models():
            if model._meta.managed and not model._meta.proxy and not model._meta.swapped:
                editor.create_model(model)
    AuditHead.objects.get_or_create(pk=1, defaults={"signature": current_keyring().sign("head", "0", "")})
    with connection().cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class BenchStorage(DatabaseStorage):
    """The dashboard's storage, by the bench's clock. After the clock was moved, ``await follow_clock()``."""

    def _open(self) -> Database:
        now, later = (text.replace("'now'", f"'now','{clock.modifier}'") for text in (SQLITE.now, SQLITE.later))
        scripts = scripts_for(replace(SQLITE, now=now, later=later), self.encryptor)
        path = str(connection().settings_dict["NAME"])
        return SqliteDatabase(path, scripts, executor.write_lock, durability=Durability.RELAXED)

    async def follow_clock(self) -> None:
        """Open the database again, with the time as it is now."""
        await self.aclose()
        await self.look()

"""``wfdash backup``: a whole, checked copy of an SQLite installation, also of one at work."""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from wfdash.installation import location

DATABASE = "wfdash.sqlite3"
KEYS = ("secret_key", "push_key")
WITH_POSTGRES = (
    "Runs are on PostgreSQL, which makes its own backups: pg_dump -Fc, or archived WAL (docs/operating.md, Backup). "
    "Keep the secret key, the audit's key and keys of encrypted content with them"
)
ELSEWHERE = {
    "WFDASH_SECRET_KEY": "without it everyone signs in again, links in mails end and waiting runs of Agent Framework "
    "are refused",
    "WFDASH_AUDIT_KEY": "without it nothing proves the audit",
    "WFDASH_ENCRYPTION_KEYS": "without them no content can be read",
    "WFDASH_PUSH_KEY": "without it browsers must turn push notifications on again",
}


def add_backup_command(verbs: Any) -> None:
    """Add the command to the parser."""
    text = "copy the SQLite database and the keys of a data directory into a new folder, also while a server runs"
    backup = verbs.add_parser("backup", help=text, description=text)
    backup.add_argument("folder", type=Path, help="the folder to make")
    backup.add_argument("--data", type=Path, help="data directory (default: $WFDASH_DATA or ./wfdash-data)")
    backup.set_defaults(run=_backup)


def _backup(options: argparse.Namespace) -> int:
    """Return 0 once the folder is there: it appears when it is whole."""
    if os.environ.get("WFDASH_DATABASE"):
        return _refuse(WITH_POSTGRES)
    if options.folder.exists():
        return _refuse(f"{options.folder} exists: name a new folder for each backup")
    partial = options.folder.with_name(f"{options.folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        copied = copy_data(location.data_dir(os.environ), partial)
        partial.rename(options.folder)
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(partial, ignore_errors=True)
        return _refuse(f"No backup was made: {error}. Is {options.folder.parent} writable, and is there room?")
    print(f"Saved in {options.folder}: {', '.join(copied)}")
    for name, without in ELSEWHERE.items():
        if os.environ.get(name):
            print(f"Not in it, keep it elsewhere: {name} ({without})")
    return 0


def copy_data(data: Path, folder: Path) -> list[str]:
    """Copy the database as it is at one moment, check the copy, and copy the keys; return the names of the files.

    Commits continue during it. ``sqlite3.Error`` if the copy is not whole; ``OSError``.
    """
    made = folder / DATABASE
    os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(f"file:{(data / DATABASE).resolve()}?mode=ro", uri=True, timeout=20)) as source:
        source.execute("VACUUM INTO ?", (str(made),))
    with closing(sqlite3.connect(made)) as copy:
        ((found,),) = copy.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise sqlite3.DatabaseError(f"the copy is damaged, and so is the database: {found}")
    keys = [name for name in KEYS if (data / name).is_file()]
    for name in keys:
        shutil.copyfile(data / name, folder / name)
        (folder / name).chmod(0o600)
    for name in (DATABASE, *keys):
        with (folder / name).open("rb") as file:
            os.fsync(file.fileno())
    return [DATABASE, *keys]


def _refuse(words: str) -> int:
    print(words, file=sys.stderr)
    return 1

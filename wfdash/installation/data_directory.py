"""The data directory and its files, readable only by their owner, whatever existed before."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

OTHERS = 0o077
OWN = ("secret_key", "wfdash.sqlite3", "worker.lock", "static")
"""Files by which a data directory of wfdash is recognised."""


def make_private(folder: Path) -> None:
    """Create the data directory if it is missing, and make it private; ``ValueError`` where that is not possible."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = folder.stat().st_mode
    if not mode & OTHERS:
        return
    if mode & stat.S_ISVTX or not _is_own(folder):
        raise ValueError(
            f"The data directory {folder} is accessible to other users and contains other files. Use a "
            "directory of its own (--data or WFDASH_DATA), or close this one: chmod 700"
        )
    try:
        folder.chmod(0o700)
    except OSError:
        # A volume that belongs to another user and is shared with our group: then only the files are private.
        if mode & stat.S_IWOTH:
            raise ValueError(
                f"The data directory {folder} is writable by everyone and owned by another user. As its "
                "owner: chmod 700, or chown it to the user that runs wfdash"
            ) from None


def keep_private(*files: Path) -> None:
    """Make files private that others can read; missing ones are skipped."""
    for file in files:
        with contextlib.suppress(OSError):
            mode = file.stat().st_mode
            if mode & OTHERS:
                file.chmod(stat.S_IMODE(mode) & ~OTHERS)


def create_private(file: Path) -> None:
    """Create an empty file readable only by its owner, unless it exists. Failures are reported when it is opened."""
    with contextlib.suppress(OSError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))


def _is_own(folder: Path) -> bool:
    names = {entry.name for entry in folder.iterdir()}
    return names <= {"lost+found"} or any(name in names for name in OWN)

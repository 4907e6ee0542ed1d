"""The data directory and its files, readable by their owner alone, whatever existed before."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

OTHERS = 0o077
OWN = ("secret_key", "wfdash.sqlite3", "worker.lock", "static")
"""Names by which a data directory of wfdash is known."""


def make_private(folder: Path) -> None:
    """Make the data directory if it is missing, and close it to others; ``ValueError`` where that cannot be done."""
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
        # A volume that belongs to somebody else, lent to our group: then the files alone are private.
        if mode & stat.S_IWOTH:
            raise ValueError(
                f"The data directory {folder} is writable by everyone and owned by another user. As its "
                "owner: chmod 700, or chown it to the user that runs wfdash"
            ) from None


def keep_private(*files: Path) -> None:
    """Close files that are open to others; those that are missing are left out."""
    for file in files:
        with contextlib.suppress(OSError):
            mode = file.stat().st_mode
            if mode & OTHERS:
                file.chmod(stat.S_IMODE(mode) & ~OTHERS)


def create_private(file: Path) -> None:
    """Make an empty file for its owner alone, unless it is there. Where that fails, whoever opens it says why."""
    with contextlib.suppress(OSError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))


def _is_own(folder: Path) -> bool:
    names = {entry.name for entry in folder.iterdir()}
    return names <= {"lost+found"} or any(name in names for name in OWN)

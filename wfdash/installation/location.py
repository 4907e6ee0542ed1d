"""The path of an installation's data, and the address of its server. Uses no database."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

ADDRESS = "address"
"""The file in the data directory that holds it."""
SOURCES = "sources"
"""The file in the data directory that names the workflows of the last server."""
NAMED = ("WFDASH_APPS", "WFDASH_WORKFLOWS", "WFDASH_ASK_PEOPLE", "WFDASH_REPOSITORIES")
NOWHERE = "http://127.0.0.1:8000"
MAKERS = frozenset({"migrate", "check", "help", "version", "makemigrations", "collectstatic", "runserver", "test"})
"""Django's commands that create a data directory, or do not need a complete one."""


def data_dir(env: Mapping[str, str]) -> Path:
    """Return the data directory, as it was configured."""
    return Path(env.get("WFDASH_DATA") or "wfdash-data")


def missing_data(env: Mapping[str, str]) -> str:
    """Return the message about missing data of wfdash, empty where there is some. Creates nothing."""
    folder = data_dir(env)
    if env.get("WFDASH_DATABASE"):
        found = "WFDASH_SECRET_KEY" in env or (folder / "secret_key").is_file()
    else:
        file = folder / "wfdash.sqlite3"
        found = file.is_file() and file.stat().st_size > 0
    shown = folder if folder.is_absolute() else f".{os.sep}{folder}"
    return "" if found else f"No wfdash data in {shown}. Use --data DIRECTORY or WFDASH_DATA"


def needs_data(command: list[str]) -> bool:
    """Return whether one of Django's commands needs existing data."""
    return bool(command) and not command[0].startswith("-") and command[0] not in MAKERS and "--help" not in command


def note_address(folder: Path, address: str) -> None:
    """Store the address at which people reach the server, for commands that print links to it."""
    with contextlib.suppress(OSError), open(folder / ADDRESS, "w", opener=_private) as file:
        file.write(address)


def noted_address(folder: Path, env: Mapping[str, str]) -> str:
    """Return the address for links: the configured one, else the one of the last server."""
    try:
        noted = (folder / ADDRESS).read_text().strip()
    except (OSError, UnicodeDecodeError):
        noted = ""
    return (env.get("WFDASH_URL") or noted or NOWHERE).rstrip("/")


def note_sources(folder: Path, env: Mapping[str, str]) -> None:
    """Store which workflows the server has, for commands that start some in the same data directory."""
    with contextlib.suppress(OSError), open(folder / SOURCES, "w", opener=_private) as file:
        json.dump({name: env[name] for name in NAMED if env.get(name)}, file)


def noted_sources(folder: Path) -> dict[str, str]:
    """Return the variables that name the workflows of the last server."""
    try:
        noted = json.loads((folder / SOURCES).read_text())
    except (OSError, ValueError):
        return {}
    return {name: str(noted[name]) for name in NAMED if name in noted} if isinstance(noted, dict) else {}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)

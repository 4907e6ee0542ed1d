"""The path of an installation's data, and the address of its server. Uses no database."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ADDRESS = "address"
"""The file in the data directory that holds it."""
SOURCES = "sources"
"""The file in the data directory that names the workflows of the last server."""
NAMED = ("WFDASH_APPS", "WFDASH_WORKFLOWS", "WFDASH_ASK_PEOPLE", "WFDASH_REPOSITORIES")
NOWHERE = "http://127.0.0.1:8000"
DATALESS = frozenset({"check", "help", "version", "makemigrations", "collectstatic", "test"})
"""Django's commands that use no data."""
MIGRATING = frozenset({"migrate", "runserver"})
"""Django's commands that begin with an empty database, but in a directory that exists."""


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
    return (
        ""
        if found
        else f"No wfdash data in {shown}. 'wfdash up' creates it; --data DIRECTORY or WFDASH_DATA names data elsewhere"
    )


def needs_data(command: list[str], env: Mapping[str, str]) -> bool:
    """Return whether one of Django's commands needs more than there is where the data is missing."""
    if not uses_data(command):
        return False
    return not (command[0] in MIGRATING and data_dir(env).is_dir())


def uses_data(command: list[str]) -> bool:
    """Return whether one of Django's commands looks at data."""
    return bool(command) and not command[0].startswith("-") and command[0] not in DATALESS and "--help" not in command


@contextlib.contextmanager
def no_data() -> Iterator[None]:
    """Let settings find an empty data directory, which is removed again."""
    before = os.environ.get("WFDASH_DATA")
    with tempfile.TemporaryDirectory() as empty:
        os.environ["WFDASH_DATA"] = empty
        try:
            yield
        finally:
            os.environ.pop("WFDASH_DATA")
            if before is not None:
                os.environ["WFDASH_DATA"] = before


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

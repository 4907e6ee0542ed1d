"""Where an installation's data, files and address are. Uses no database."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distributions, version
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
    return uses_data(command) and not (command[0] in MIGRATING and data_dir(env).is_dir())


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
    noted = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        noted = (folder / ADDRESS).read_text().strip()
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


def other_owners() -> str:
    """Return why this installation is refused: another distribution has files in ``checkpoints``; empty if none has."""
    texts = ((one, f"\n{one.read_text('top_level.txt')}\n{one.read_text('RECORD')}") for one in distributions())
    others = {one.name for one, text in texts if re.search(r"\ncheckpoints[/.\n]", text) and "\nwfdash/" not in text}
    return (
        f"The package 'checkpoints' is not wfdash's own alone: {', '.join(sorted(others))} has files in it, "
        "so that either may break the other. Install wfdash again, in a virtual environment of its own"
        if others
        else ""
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


# The data directory and its files, readable only by their owner, whatever existed before.

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


# Where the templates and static files are: beside the packages in a checkout, inside of one in a wheel.

PACKAGE = Path(__file__).resolve().parents[1]


def folder_of(name: str) -> Path:
    """Return the folder ``templates`` or ``static``, or one in it."""
    inside = PACKAGE / "files" / name
    return inside if inside.is_dir() else PACKAGE.parent / name


PACKAGES = ("django", "django-htmx")
"""Packages with static files of their own."""


def static_version(folders: Iterable[Path]) -> str:
    """Return a short hash of the files' names and contents: it changes when a file does, on every server alike."""
    digest = hashlib.sha256(" ".join(version(package) for package in PACKAGES).encode())
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"\0{file.relative_to(folder).as_posix()}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]

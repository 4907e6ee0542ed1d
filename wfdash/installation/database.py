"""Which database ``WFDASH_DATABASE`` names, as Django's setting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from checkpoints.sql.postgres.conninfo import settings_of
from wfdash.installation.data_directory import create_private

PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA journal_size_limit=67108864;"


def read_database(folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return Django's setting of the database: PostgreSQL from a URL, or SQLite in ``folder``, for durable commits.

    ``ValueError`` for an address of another database. Where a direct address is given too, the usual one is a pooler's.
    """
    url = env.get("WFDASH_DATABASE", "")
    if not url:
        options = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": PRAGMAS}
        create_private(folder / "wfdash.sqlite3")  # SQLite gives the files beside it the same mode
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "wfdash.sqlite3"), "OPTIONS": options}
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        given = f"{parts.scheme}://" if parts.scheme else "a value without a scheme"
        raise ValueError(
            f"WFDASH_DATABASE: {given} is not supported. Give postgresql://..., or leave it empty for SQLite"
        )
    return settings_of(url, pooled=bool(env.get("WFDASH_DATABASE_DIRECT")))

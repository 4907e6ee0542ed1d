"""Django for commands: set up once, for files that only their owner reads."""

from __future__ import annotations

import logging
import os
import resource
from contextlib import suppress
from typing import Any

PRIVATE_UMASK = 0o077
"""Files are readable only by their owner, such as the database, exports, and what workflows write."""


def setup(role: str = "command") -> Any:
    """Set Django up and return the settings. ``role``: what this process does, for the names of its connections."""
    os.umask(PRIVATE_UMASK)
    raise_open_files()
    import django

    django.setup()
    from django.conf import settings

    from checkpoints.database.direct import name_connections

    name_connections(role)
    if role == "command":
        shorten_failures()
    return settings


def raise_open_files() -> None:
    """Let this process open as many files, connections among them, as it may: the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # systems that say "unlimited" and mean less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shorten_failures() -> None:
    """Say in one line that workflows could not be loaded: to a command that reads data they matter little."""
    said: list[str] = []

    def first(record: logging.LogRecord) -> bool:
        source, *_ = record.args or ("workflows.py",)
        said.append(str(source))
        record.msg, record.args, record.exc_info = "Could not load workflows: see 'wfdash check %s'", (source,), None
        return len(said) == 1

    logging.getLogger("wfdash.engines.catalog").addFilter(first)

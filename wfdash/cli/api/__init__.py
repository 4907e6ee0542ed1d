"""Commands that use the API: on a server, or on a data directory. Both go through ``wfdash.client``."""

from __future__ import annotations

from typing import Any

from wfdash.cli.api import audit, checkpoints, people, requests, runs, schedules, statistics, workflows


def add_api_commands(commands: Any) -> None:
    """Add every family of commands."""
    for family in (runs, requests, checkpoints, workflows, schedules, people, audit, statistics):
        family.add(commands)

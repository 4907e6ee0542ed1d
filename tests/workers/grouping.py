"""Which tests one worker runs, and in which order: what is expensive to start is started once."""

from __future__ import annotations

import pytest

SERVERS = ("shared_demo", "shared_gate")
"""Servers that several files look at."""


def arrange(items: list[pytest.Item]) -> None:
    """Let tests that wait for processes begin.

    Their waiting overlaps, and what needs the processor alone fills the end evenly. Within that the order is random.
    """
    items.sort(key=rank_of)


def group_of(item: pytest.Item) -> str:
    """Return the name of a test's group: a shared server, PostgreSQL, or its file."""
    for server in SERVERS:
        if server in fixtures_of(item):
            return server
    return postgres_of(item) or item.nodeid.partition("::")[0]


def postgres_of(item: pytest.Item) -> str:
    """Return which PostgreSQL a test needs, empty if none: the one that tests may crash, or the other."""
    used, named = fixtures_of(item), "postgres" in item.name.partition("[")[2]
    if "postgres" in used or "shared_world" in used or (named and "make_world" in used):
        return "a postgres to crash"
    return "postgres" if named or item.get_closest_marker("postgres") else ""


def rank_of(item: pytest.Item) -> int:
    """Return when a test's turn is: browsers (shared servers first), other processes, PostgreSQL, everything else."""
    if item.get_closest_marker("e2e"):
        return 0 if group_of(item) in SERVERS else 1
    if item.get_closest_marker("process"):
        return 2
    return 3 if postgres_of(item) else 4


def fixtures_of(item: pytest.Item) -> list[str]:
    """Return the names of the fixtures a test uses, directly or not."""
    return list(getattr(item, "fixturenames", ()))

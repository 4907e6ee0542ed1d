"""Sub-workflows that have changed since a run started, and the migration hooks to their current versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wfdash.workflow.authoring.migration_hooks import MigrationHook, find_path
from wfdash.workflow.compiler.graph import Level
from wfdash.workflow.stored.position import Marks


def hooks_below(levels: Mapping[str, Level], marks: Marks) -> dict[str, tuple[MigrationHook, ...]]:
    """Return sub-workflow -> its hooks to run. Empty unless they account for everything that has changed."""
    found: dict[str, tuple[MigrationHook, ...]] = {}
    return found if levels and _lead(levels, marks, "", found) else {}


def _lead(levels: Mapping[str, Level], marks: Marks, name: str, found: dict[str, tuple[MigrationHook, ...]]) -> bool:
    if name not in marks:
        return False
    level, (version, own) = levels[name], marks[name]
    if version == level.version:
        return True
    path = find_path(level.definition.hooks, version, level.version) if name else ()
    if path:
        found[name] = path
        return True
    inner = [below for below in levels if below and below.rpartition("/")[0] == name]
    return own == level.own and all(_lead(levels, marks, below, found) for below in inner)


def changed_below(levels: Mapping[str, Level], marks: Marks) -> Iterator[str]:
    """Yield which sub-workflows have changed, with the version that a hook of theirs would name."""
    for name, level in levels.items():
        if name and name in marks and marks[name][0] != level.version:
            yield f"sub-workflow {name!r} was version {marks[name][0]}, is {level.version} now"

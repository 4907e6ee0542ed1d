"""Which sub-workflows have changed since a run began, and whether their own migration hooks lead from there to now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wfdash.workflow.graph import Level
from wfdash.workflow.migration import Way, find_way

Marks = Mapping[str, Sequence[str]]
"""What a position remembers: workflow or sub-workflow -> its version, the signature of its own steps."""


def ways_below(levels: Mapping[str, Level], marks: Marks) -> dict[str, tuple[Way, ...]]:
    """Return sub-workflow -> its hooks to run. Empty unless they account for everything that has changed."""
    found: dict[str, tuple[Way, ...]] = {}
    return found if levels and _lead(levels, marks, "", found) else {}


def _lead(levels: Mapping[str, Level], marks: Marks, name: str, found: dict[str, tuple[Way, ...]]) -> bool:
    if name not in marks:
        return False
    level, (version, own) = levels[name], marks[name]
    if version == level.version:
        return True
    way = find_way(level.definition.hooks, version, level.version) if name else ()
    if way:
        found[name] = way
        return True
    inner = [below for below in levels if below and below.rpartition("/")[0] == name]
    return own == level.own and all(_lead(levels, marks, below, found) for below in inner)


def level_words(levels: Mapping[str, Level], marks: Marks) -> Iterator[str]:
    """Yield which sub-workflows have changed, with the version that a hook of theirs would name."""
    for name, level in levels.items():
        if name and name in marks and marks[name][0] != level.version:
            yield f"sub-workflow {name!r} was version {marks[name][0]}, is {level.version} now"

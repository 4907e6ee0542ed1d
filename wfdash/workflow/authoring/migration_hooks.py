"""The argument of a migration hook: the run's state and its steps in progress, and the changes it may make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from checkpoints.records import Json
from wfdash.values.codec import copy_plain


@dataclass(frozen=True, kw_only=True)
class StepChange:
    """One change of a hook. ``verb``: rename | drop | move."""

    verb: str
    step: str
    to: str = ""

    def inside(self, prefix: str) -> StepChange:
        """Return the change with the names of a sub-workflow's steps in the whole graph."""
        return replace(self, step=prefix + self.step, to=prefix + self.to if self.to else "")


class Migration:
    """A run being migrated to a newer graph. Change ``state`` in place; declare what became of removed steps.

    ``steps``: how many activations of each step are in progress. Steps that are not mentioned keep their place and
    name. Nothing is written until the result is known to be valid in the new graph.
    """

    def __init__(self, state: Mapping[str, Json], steps: Mapping[str, int]) -> None:
        self.state: dict[str, Json] = copy_plain(dict(state))
        self.steps: Mapping[str, int] = dict(steps)
        self.changes: list[StepChange] = []

    def rename(self, old: str, new: str) -> None:
        """Rename step ``old`` to ``new``: its questions, calls and answers stay with it."""
        self._change(StepChange(verb="rename", step=old, to=new))

    def drop(self, step: str) -> None:
        """End every activation of ``step`` without a result: its questions are withdrawn."""
        self._change(StepChange(verb="drop", step=step))

    def move(self, step: str, to: str) -> None:
        """Start ``to`` with the same message in place of ``step``, from its top: questions are withdrawn."""
        self._change(StepChange(verb="move", step=step, to=to))

    def _change(self, change: StepChange) -> None:
        self.changes.append(change)
        counted = Counter(dict(self.steps))
        in_progress = counted.pop(change.step, 0)
        if change.to and in_progress:
            counted[change.to] += in_progress
        self.steps = dict(counted)


Hook: TypeAlias = Callable[[Migration], Any]


@dataclass(frozen=True, kw_only=True)
class MigrationHook:
    """A declared hook. ``to_version`` is empty for the next declared one's, or the current graph."""

    from_version: str
    to_version: str
    hook: Hook


def find_path(ways: tuple[MigrationHook, ...], version: str, present: str) -> tuple[MigrationHook, ...]:
    """Return the hooks that lead from ``version`` to the ``present`` one, in order; empty if they do not."""
    leads = {way.from_version: (way, _goal(ways, place, present)) for place, way in enumerate(ways)}
    found: list[MigrationHook] = []
    while version != present:
        if version not in leads:
            return ()
        way, version = leads.pop(version)
        found.append(way)
    return tuple(found)


def _goal(ways: tuple[MigrationHook, ...], place: int, present: str) -> str:
    later = [way.from_version for way in ways[place + 1 :]]
    return ways[place].to_version or (later[0] if later else present)

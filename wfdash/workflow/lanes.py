"""Which of a step's tasks does something: a name that is the same whenever the step's function runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

Did: TypeAlias = tuple[str, str]
"""Kind and name of an operation."""

_inherited: ContextVar[tuple[Lanes, str]] = ContextVar("wfdash_lane")


class Lanes:
    """Lane ``""`` is the step's main task, ``".2"`` the second of its child tasks to do something, ``".2.1"`` a child
    of that one. A new child takes the first recorded lane beside it that began as it does.
    """

    def __init__(self, journal: Sequence[dict[str, Any]]) -> None:
        self.main: asyncio.Task[Any] | None = None
        self._begun: dict[str, Did] = {}
        self._taken: set[str] = set()
        self._lanes: WeakKeyDictionary[asyncio.Task[Any], str] = WeakKeyDictionary()
        for entry in journal:
            self._begun.setdefault(lane_of(entry), (entry["k"], entry["name"]))

    def current(self, did: Did | None) -> str:
        """Return the lane of the task that runs now, which is about to do this (None: that is not known yet)."""
        task = asyncio.current_task()
        known = "" if task is None or task is self.main else self._lanes.get(task)
        lane = self._lane_for(task, did) if known is None and task is not None else known or ""
        _inherited.set((self, lane))
        return lane

    def known(self) -> str | None:
        """Return the running task's lane, None if it has none yet. A thread's work is new: its lane is its own."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return "thread"
        return "" if task is None or task is self.main else self._lanes.get(task)

    def _lane_for(self, task: asyncio.Task[Any], did: Did | None) -> str:
        owner, parent = _inherited.get((self, ""))
        lane = self._free(parent if owner is self else "", did)
        self._taken.add(lane)
        self._lanes[task] = lane
        return lane

    def _free(self, parent: str, did: Did | None) -> str:
        number = 1
        while (lane := f"{parent}.{number}") in self._begun or lane in self._taken:
            if lane not in self._taken and did in (None, self._begun[lane]):
                return lane
            number += 1
        return lane


def lane_of(entry: dict[str, Any]) -> str:
    """Return the lane that a journal entry was made in."""
    return str(entry.get("t", ""))

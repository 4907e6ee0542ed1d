"""Names of a step's asyncio tasks, which are the same whenever the step's function runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from wfdash.workflow.stored.position import JournalEntry

Operation: TypeAlias = tuple[str, str]
"""Kind and name of an operation."""

_inherited: ContextVar[tuple[TaskNames, str]] = ContextVar("wfdash_task_name")


class TaskNames:
    """``""`` is the step's main task, ``".2"`` the second of its child tasks to do something, ``".2.1"`` a child
    of that one. A new child takes the first recorded name beside it that began as it does.
    """

    def __init__(self, journal: Sequence[JournalEntry]) -> None:
        self.main: asyncio.Task[Any] | None = None
        self._begun: dict[str, Operation] = {}
        self._taken: set[str] = set()
        for entry in journal:
            self._begun.setdefault(task_name_of(entry), (entry["k"], entry["name"]))

    @cached_property
    def _names(self) -> WeakKeyDictionary[asyncio.Task[Any], str]:
        """Names by child task. Most steps have none."""
        return WeakKeyDictionary()

    def current(self, did: Operation | None) -> str:
        """Return the name of the running task, which is about to do this (None: that is not known yet)."""
        task = asyncio.current_task()
        known = "" if task is None or task is self.main else self._names.get(task)
        task_name = self._name_for(task, did) if known is None and task is not None else known or ""
        _inherited.set((self, task_name))
        return task_name

    def known(self) -> str | None:
        """Return the running task's name, None if it has none yet; work in a thread has one of its own."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return "thread"
        return "" if task is None or task is self.main else self._names.get(task)

    def _name_for(self, task: asyncio.Task[Any], did: Operation | None) -> str:
        owner, parent = _inherited.get((self, ""))
        task_name = self._free_name(parent if owner is self else "", did)
        self._taken.add(task_name)
        self._names[task] = task_name
        return task_name

    def _free_name(self, parent: str, did: Operation | None) -> str:
        number = 1
        while (task_name := f"{parent}.{number}") in self._begun or task_name in self._taken:
            if task_name not in self._taken and did in (None, self._begun[task_name]):
                return task_name
            number += 1
        return task_name


def task_name_of(entry: JournalEntry) -> str:
    """Return the name of the task that a journal entry was made in."""
    return entry.get("t", "")

"""Replay of a step's journal while its function runs again: matches each operation with its record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from wfdash.values.fingerprints import MOST_AGAIN
from wfdash.workflow.errors import ReplayMismatch
from wfdash.workflow.stored import JournalEntry

Operation: TypeAlias = tuple[str, str]
"""Kind and name of an operation."""
CLOSED = {"answer", "result", "done", "raised"}

_inherited: ContextVar[tuple[Replay, str]] = ContextVar("wfdash_task_name")


class Replay:
    """The journal of one activation, and how far the running function has come in it.

    Each of a step's tasks is matched separately, since nothing fixes the order among tasks. A task that did
    one thing at a time must do the same things in the same order; one that had several open at once is matched by
    kind, name and occurrence.

    Tasks have names that are the same whenever the function runs again: ``""`` is the step's main task, ``".2"`` the
    second of its child tasks to do something, ``".2.1"`` a child of that one. A new child takes the first recorded name
    beside it that began as it does.
    """

    def __init__(self, step: str, journal: list[JournalEntry], main: asyncio.Task[Any] | None) -> None:
        """``main``: the step's main task, None once that has ended."""
        self.step = step
        self.main = main
        self.entries = list(journal)
        self.recorded = len(journal)
        """How many entries there were before the function ran this time."""
        self._begun: dict[str, Operation] = {}
        """The first recorded operation of each task, by its name."""
        self._taken: set[str] = set()
        self._left: dict[str, list[int]] = {}
        self._open: dict[str, list[int]] = {}
        """Entries by task that had no result when last looked at."""
        for index, entry in enumerate(journal):
            task_name = task_name_of(entry)
            self._begun.setdefault(task_name, (entry["k"], entry["name"]))
            self._left.setdefault(task_name, []).append(index)
            if not CLOSED & entry.keys():
                self._open.setdefault(task_name, []).append(index)
        for left in self._left.values():
            left.reverse()
        self._overlapped = {task_name_of(entry) for entry in journal if "o" in entry}
        self._mismatch: ReplayMismatch | None = None
        """What the code did otherwise than recorded. It does nothing more, even if it handles this error."""

    def match(self, kind: str, name: str, prints: Mapping[str, str] | None = None) -> tuple[int | None, str]:
        """Return the index of the recorded entry (None if this is new) and its task's name; or ``ReplayMismatch``.

        ``prints``: fingerprints of a question. Of several that were open at once, the one that has them comes first.
        """
        if self._mismatch is not None:
            raise self._mismatch
        task_name = self._task_name((kind, name))
        left = self._left.get(task_name)
        if not left:
            return None, task_name
        if task_name not in self._overlapped:
            return self._strict(left, kind, name), task_name
        fitting = [index for index in reversed(left) if self._is_entry(index, kind, name)]
        same = (index for index in fitting if prints is not None and self.entries[index].get("prints") == prints)
        found = next(same, fitting[0] if fitting else None)
        if found is not None:
            left.remove(found)
        return found, task_name

    def upcoming(self) -> int:
        """Return the index that the running task's next operation has, or will get."""
        left = self._left.get(self._task_name(None))
        return left[-1] if left else len(self.entries)

    def is_behind(self) -> bool:
        """Say whether the running task only repeats what was done before; of a task not known yet: whether any does."""
        if not self._left:
            return False
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return False  # Work in a thread is no task.
        task_name = "" if task is None or task is self.main else self._task_names.get(task)
        return any(self._left.values()) if task_name is None else bool(self._left.get(task_name))

    @cached_property
    def _task_names(self) -> WeakKeyDictionary[asyncio.Task[Any], str]:
        """Names by child task. Most steps have none."""
        return WeakKeyDictionary()

    def _task_name(self, did: Operation | None) -> str:
        """Return the name of the running task, which is about to do this (None: that is not known yet)."""
        task = asyncio.current_task()
        task_name = "" if task is None or task is self.main else self._task_names.get(task)
        if task_name is None and task is not None:
            owner, parent = _inherited.get((self, ""))
            task_name = self._task_names[task] = self._free_name(parent if owner is self else "", did)
            self._taken.add(task_name)
        _inherited.set((self, task_name or ""))
        return task_name or ""

    def _free_name(self, parent: str, did: Operation | None) -> str:
        number = 1
        while (task_name := f"{parent}.{number}") in self._begun or task_name in self._taken:
            if task_name not in self._taken and did in (None, self._begun[task_name]):
                return task_name
            number += 1
        return task_name

    def _strict(self, left: list[int], kind: str, name: str) -> int:
        if not self._is_entry(left[-1], kind, name):
            was = self.entries[left[-1]]
            raise self._refusal(
                f"step {self.step!r}, number {left[-1] + 1}: recorded {was['k']} {was['name']!r},"
                f" the code now does {kind} {name!r}"
            )
        return left.pop()

    def _is_entry(self, index: int, kind: str, name: str) -> bool:
        return bool(self.entries[index]["k"] == kind and self.entries[index]["name"] == name)

    def add(self, entry: JournalEntry, task_name: str) -> int:
        """Append a new entry, marked if others of its task are open; return its index."""
        if task_name:
            entry["t"] = task_name
        still = [index for index in self._open.get(task_name, ()) if not CLOSED & self.entries[index].keys()]
        if still:
            entry["o"] = 1
        self._open[task_name] = [*still, len(self.entries)]
        self.entries.append(entry)
        return len(self.entries) - 1

    def refuse_reuse(self, index: int, parts: tuple[str, ...]) -> None:
        """Raise ``ReplayMismatch`` if the answer to a question that is another one now cannot be asked for again."""
        was, said = self.entries[index], f"step {self.step!r}: the {self.entries[index]['name']} asked another question"
        if "answer" not in was:
            return
        if self.recorded > was["answer"].get("n", -1):
            raise self._refusal(
                f"{said} than the one that was answered ({', '.join(parts)} differ), and the step continued from that"
                " answer: run the code that asked it, or restore a checkpoint from before it"
            )
        if was.get("again", 0) >= MOST_AGAIN:
            raise self._refusal(
                f"{said} each time it ran ({', '.join(parts)} differ): get what changes through ctx.call, or leave it"
                " out of what must be the same with ctx.ask(..., same=...)"
            )

    def may_ask_again(self, index: int) -> bool:
        """Say whether an answer may be asked for once more: nothing rests on it, and it was not asked for too often."""
        was = self.entries[index]
        rests = self.recorded > was["answer"].get("n", index + 1)
        return not rests and was.get("again", 0) < MOST_AGAIN

    def replace(self, index: int, entry: JournalEntry) -> JournalEntry:
        """Put a question in the place of the one that was asked there; returns the entry with the place's marks."""
        was = self.entries[index]
        fresh = entry.copy()
        if "t" in was:
            fresh["t"] = was["t"]
        if "o" in was:
            fresh["o"] = was["o"]
        fresh["again"] = was.get("again", 0) + ("answer" in was)
        fresh["renewed"] = was.get("renewed", 0) + 1
        self.entries[index] = fresh
        still = self._open.setdefault(task_name_of(was), [])
        if index not in still:
            still.append(index)
        return self.entries[index]

    def check_end(self) -> None:
        """Raise ``ReplayMismatch`` if the function returned without doing all that was recorded."""
        if self._mismatch is not None:
            raise self._mismatch
        left = [index for indexes in self._left.values() for index in indexes]
        if left:
            entry = self.entries[min(left)]
            raise ReplayMismatch(f"step {self.step!r} returned without its recorded {entry['k']} {entry['name']!r}")

    def _refusal(self, text: str) -> ReplayMismatch:
        self._mismatch = ReplayMismatch(text)
        return self._mismatch


def task_name_of(entry: JournalEntry) -> str:
    """Return the name of the task that a journal entry was made in."""
    return entry.get("t", "")

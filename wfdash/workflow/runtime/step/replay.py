"""Replay of a step's journal while its function runs again: matches each operation with its record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from wfdash.values.fingerprints import MOST_AGAIN
from wfdash.workflow.errors import ReplayMismatch
from wfdash.workflow.runtime.step.task_names import TaskNames, task_name_of
from wfdash.workflow.stored.position import JournalEntry

CLOSED = {"answer", "result", "done", "raised"}


class Replay:
    """The journal of one activation, and how far the running function has come in it.

    Each of a step's tasks is matched separately, since nothing fixes the order among tasks. A task that did
    one thing at a time must do the same things in the same order; one that had several open at once is matched by
    kind, name and occurrence.
    """

    def __init__(self, step: str, journal: list[JournalEntry]) -> None:
        self.step = step
        self.entries = list(journal)
        self.recorded = len(journal)
        """How many entries there were before the function ran this time."""
        self._task_names = TaskNames(journal)
        self._left: dict[str, list[int]] = {}
        for index in range(len(journal) - 1, -1, -1):
            self._left.setdefault(task_name_of(journal[index]), []).append(index)
        self._open: dict[str, list[int]] = {}
        """Entries by task that had no result when last looked at."""
        for index, entry in enumerate(journal):
            if not CLOSED & entry.keys():
                self._open.setdefault(task_name_of(entry), []).append(index)
        self._overlapped = {task_name_of(entry) for entry in journal if "o" in entry}
        self._mismatch: ReplayMismatch | None = None
        """What the code did otherwise than recorded. It does nothing more, even if it handles this error."""

    def follow(self, main: asyncio.Task[Any] | None) -> None:
        """Say which is the step's main task; None: it has ended."""
        self._task_names.main = main

    def match(self, kind: str, name: str, prints: Mapping[str, str] | None = None) -> tuple[int | None, str]:
        """Return the index of the recorded entry (None if this is new) and its task's name; or ``ReplayMismatch``.

        ``prints``: fingerprints of a question. Of several that were open at once, the one that has them comes first.
        """
        if self._mismatch is not None:
            raise self._mismatch
        task_name = self._task_names.current((kind, name))
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
        left = self._left.get(self._task_names.current(None))
        return left[-1] if left else len(self.entries)

    def is_behind(self) -> bool:
        """Say whether the running task only repeats what was done before; of a task not known yet: whether any does."""
        if not self._left:
            return False
        task_name = self._task_names.known()
        return any(self._left.values()) if task_name is None else bool(self._left.get(task_name))

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

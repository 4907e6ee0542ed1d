"""What a step did before, while its function runs again: matches each ask, call and sleep with its record."""

from __future__ import annotations

import asyncio
from typing import Any

from wfdash.workflow.errors import ReplayMismatch
from wfdash.workflow.lanes import Lanes, lane_of

CLOSED = {"answer", "result", "done", "raised"}


class Replay:
    """The journal of one activation, and how far the running function has come in it.

    Each of a step's tasks has a lane of its own, since the order among tasks is nobody's promise. A task that did
    one thing at a time must do the same things in the same order; one that had several open at once is matched by
    kind, name and occurrence.
    """

    def __init__(self, step: str, journal: list[dict[str, Any]]) -> None:
        self.step = step
        self.entries = list(journal)
        self._lanes = Lanes(journal)
        self._left: dict[str, list[int]] = {}
        for index in range(len(journal) - 1, -1, -1):
            self._left.setdefault(lane_of(journal[index]), []).append(index)
        self._open: dict[str, list[int]] = {}
        """Entries by lane that had no result when last looked at."""
        for index, entry in enumerate(journal):
            if not CLOSED & entry.keys():
                self._open.setdefault(lane_of(entry), []).append(index)
        self._overlapped = {lane_of(entry) for entry in journal if "o" in entry}

    def follow(self, main: asyncio.Task[Any]) -> None:
        """Say which is the step's main task."""
        self._lanes.main = main

    def match(self, kind: str, name: str) -> tuple[int | None, str]:
        """Return the index of the recorded entry this is (None if it is new) and its lane; or ``ReplayMismatch``."""
        lane = self._lanes.current((kind, name))
        left = self._left.get(lane)
        if not left:
            return None, lane
        if lane not in self._overlapped:
            return self._strict(left, kind, name), lane
        found = next((index for index in reversed(left) if self._is(index, kind, name)), None)
        if found is not None:
            left.remove(found)
        return found, lane

    def upcoming(self) -> int:
        """Return the index that the running task's next operation has, or will get."""
        left = self._left.get(self._lanes.current(None))
        return left[-1] if left else len(self.entries)

    def is_behind(self) -> bool:
        """Say whether the running task only repeats what was done before; of a task not known yet: whether any does."""
        if not self._left:
            return False
        lane = self._lanes.known()
        return any(self._left.values()) if lane is None else bool(self._left.get(lane))

    def _strict(self, left: list[int], kind: str, name: str) -> int:
        if not self._is(left[-1], kind, name):
            was = self.entries[left[-1]]
            raise ReplayMismatch(
                f"step {self.step!r}, number {left[-1] + 1}: recorded {was['k']} {was['name']!r},"
                f" the code now does {kind} {name!r}"
            )
        return left.pop()

    def _is(self, index: int, kind: str, name: str) -> bool:
        return bool(self.entries[index]["k"] == kind and self.entries[index]["name"] == name)

    def add(self, entry: dict[str, Any], lane: str) -> int:
        """Append a new entry, marked if others of its lane are open; return its index."""
        if lane:
            entry["t"] = lane
        still = [index for index in self._open.get(lane, ()) if not CLOSED & self.entries[index].keys()]
        if still:
            entry["o"] = 1
        self._open[lane] = [*still, len(self.entries)]
        self.entries.append(entry)
        return len(self.entries) - 1

    def check_end(self) -> None:
        """Raise ``ReplayMismatch`` if the function returned without doing all that was recorded."""
        left = [index for indexes in self._left.values() for index in indexes]
        if left:
            entry = self.entries[min(left)]
            raise ReplayMismatch(f"step {self.step!r} returned without its recorded {entry['k']} {entry['name']!r}")

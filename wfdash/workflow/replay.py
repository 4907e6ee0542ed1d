"""What a step did before, while its function runs again: matches each ask, call and sleep with its record."""

from __future__ import annotations

from typing import Any

from wfdash.workflow.errors import ReplayMismatch

CLOSED = {"answer", "result", "done"}


class Replay:
    """The journal of one activation, and how far the running function has come in it.

    A step that did one thing at a time must do the same things in the same order. One that had several open
    at once is matched by kind, name and occurrence, because the order among them is nobody's promise.
    """

    def __init__(self, step: str, journal: list[dict[str, Any]]) -> None:
        self.step = step
        self.entries = list(journal)
        self.issued = 0
        self._recorded = len(journal)
        self._overlapped = any("o" in entry for entry in journal)
        self._used: set[int] = set()

    def match(self, kind: str, name: str) -> int | None:
        """Return the index of the recorded entry this is, None if it is new; ``ReplayMismatch`` if it differs."""
        ordinal, self.issued = self.issued, self.issued + 1
        if len(self._used) >= self._recorded:
            return None
        if not self._overlapped:
            return self._strict(ordinal, kind, name)
        found = next((i for i in range(self._recorded) if i not in self._used and self._is(i, kind, name)), None)
        if found is not None:
            self._used.add(found)
        return found

    def _strict(self, ordinal: int, kind: str, name: str) -> int:
        if not self._is(ordinal, kind, name):
            was = self.entries[ordinal]
            raise ReplayMismatch(
                f"step {self.step!r}, number {ordinal + 1}: recorded {was['k']} {was['name']!r},"
                f" the code now does {kind} {name!r}"
            )
        self._used.add(ordinal)
        return ordinal

    def _is(self, index: int, kind: str, name: str) -> bool:
        return bool(self.entries[index]["k"] == kind and self.entries[index]["name"] == name)

    def add(self, entry: dict[str, Any]) -> int:
        """Append a new entry, marked if others are open; return its index."""
        if any(not CLOSED & other.keys() for other in self.entries):
            entry["o"] = 1
        self.entries.append(entry)
        return len(self.entries) - 1

    def check_end(self) -> None:
        """Raise ``ReplayMismatch`` if the function returned without doing all that was recorded."""
        left = [e for i, e in enumerate(self.entries[: self._recorded]) if i not in self._used]
        if left:
            raise ReplayMismatch(f"step {self.step!r} returned without its recorded {left[0]['k']} {left[0]['name']!r}")

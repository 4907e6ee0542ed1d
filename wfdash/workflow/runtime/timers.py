"""Timers of a run."""

from __future__ import annotations

import heapq
from datetime import datetime

from wfdash.workflow.stored.position import Position


class Timers:
    """Times to look at the clock, soonest first."""

    def __init__(self) -> None:
        self._times: list[datetime] = []

    def add(self, when: datetime) -> None:
        """Set a timer."""
        heapq.heappush(self._times, when)

    def add_pending(self, position: Position) -> None:
        """Set a timer for each retry and sleep that a position waits for."""
        for record in position["live"].values():
            times = [record["retry_at"]] if "retry_at" in record else []
            times += [entry["until"] for entry in record["journal"] if entry["k"] == "sleep" and "done" not in entry]
            for time in times:
                self.add(datetime.fromisoformat(time))

    def __bool__(self) -> bool:
        """Whether any is set."""
        return bool(self._times)

    @property
    def next(self) -> datetime | None:
        """The soonest one; None if none is set."""
        return self._times[0] if self._times else None

    def seconds_left(self, now: datetime) -> float:
        """Return how long it is to the soonest one, less than 0 if that has passed. One must be set."""
        return (self._times[0] - now).total_seconds()

    def clear_passed(self, now: datetime) -> bool:
        """Remove those that have passed; say whether there were any."""
        passed = bool(self._times) and self._times[0] <= now
        while self._times and self._times[0] <= now:
            heapq.heappop(self._times)
        return passed

"""The visible part of a timeline, and what its zoom buttons make of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wfdash.pages.runs.timeline.axis import WIDTH, Axis

MIN_WINDOW = 0.001
"""Seconds; the closest zoom."""


@dataclass(frozen=True, kw_only=True)
class TimeWindow:
    """The visible part, in seconds from the start. ``axis``: of the whole; the buttons act on what one sees there."""

    low: float
    high: float
    axis: Axis

    @property
    def whole(self) -> float:
        """Return the seconds of the whole."""
        return self.axis.seconds[-1]

    @property
    def zoomed(self) -> bool:
        """Return whether it is less than the whole."""
        return self.low > 0 or self.high < self.whole

    @property
    def closer(self) -> tuple[float, float]:
        """Return the middle half."""
        low, high = self._places
        quarter = (high - low) / 4
        return self._times(low + quarter, high - quarter)

    @property
    def farther(self) -> tuple[float, float]:
        """Return twice as much."""
        low, high = self._places
        half = (high - low) / 2
        return self._times(max(low - half, 0.0), min(high + half, WIDTH))

    def moved(self, direction: int) -> tuple[float, float]:
        """Return a window half its width earlier (-1) or later (1), within the whole."""
        low, high = self._places
        by = direction * (high - low) / 2
        by = max(by, -low) if by < 0 else min(by, WIDTH - high)
        return self._times(low + by, high + by)

    @property
    def _places(self) -> tuple[float, float]:
        return self.axis.place(self.low), self.axis.place(self.high)

    def _times(self, low: float, high: float) -> tuple[float, float]:
        """Return the window between two places; this one where that would be too little to see."""
        times = self.axis.time(low), self.axis.time(high)
        return times if times[1] - times[0] >= MIN_WINDOW else (self.low, self.high)


def window_of(shown: Sequence[float] | None, axis: Axis) -> TimeWindow:
    """Return the requested window within the whole; the whole if that is empty."""
    whole = axis.seconds[-1]
    low, high = shown or (0.0, whole)
    low, high = max(low, 0.0), min(high, whole)
    if high - low < MIN_WINDOW:
        low, high = 0.0, whole
    return TimeWindow(low=low, high=high, axis=axis)

"""Batches of encoded events, built once for all viewers with the same cursor. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class EventBatch:
    """The encoded events that follow one cursor, oldest first, without a gap; never empty."""

    def __init__(self, first: int, texts: Sequence[str]) -> None:
        self.first = first
        self.sizes = tuple(map(len, texts))
        """Characters of each event."""
        self._texts = texts
        self._whole = ""

    def last(self, count: int) -> int:
        """Return the seq of the last of the first ``count`` events."""
        return self.first + count - 1

    def message(self, count: int) -> str:
        """Return the message with the first ``count`` events."""
        if count < len(self._texts):
            return self._join(count)
        self._whole = self._whole or self._join(count)
        return self._whole

    def _join(self, count: int) -> str:
        return f'{{"type":"events","events":[{",".join(self._texts[:count])}],"last":{self.last(count)}}}'

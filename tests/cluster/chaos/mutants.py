"""Faults made on purpose, which the checks must find: ``python -m tests.cluster.chaos.mutants VERB ...`` is ``wfdash``
with the one that ``WFDASH_MUTANT`` names.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from typing import Any


def repeat_calls() -> None:
    """Treat a call that must happen once like any other."""
    from wfdash.workflow import Context

    plain = Context.call

    def call(self: Any, function: Any, *given: Any, once: bool = False, **named: Any) -> Any:
        return plain(self, function, *given, **named)

    Context.call = call  # type: ignore[method-assign,assignment]


def drop_events() -> None:
    """Send each tenth message with several events without the first of them."""
    from wfdash.web.live.feeds import EventBatch

    plain, joined = EventBatch._join, count()

    def join(self: EventBatch, size: int) -> str:
        if size < 2 or next(joined) % 10:
            return plain(self, size)
        rest = EventBatch(self.first + 1, self._texts[1:], self._style)
        return plain(rest, size - 1)

    EventBatch._join = join  # type: ignore[method-assign]


MUTANTS = {"once": repeat_calls, "event": drop_events}


def main() -> int:
    """Break what was asked for, then be ``wfdash``."""
    MUTANTS[os.environ["WFDASH_MUTANT"]]()
    from wfdash.cli import main as wfdash

    return int(wfdash() or 0)


if __name__ == "__main__":
    sys.exit(main())

"""Where runs of a workflow execute, and how many at once: its queue and its limit. Pure."""

from __future__ import annotations

import re
from typing import Any

DEFAULT_QUEUE = "default"
"""The queue of a workflow that names none."""
LONGEST_QUEUE = 60
QUEUE = re.compile(r"\w[\w.-]*")


def problem_of_queue(name: Any) -> str:
    """Return what is wrong with the name of a queue; empty: nothing."""
    if isinstance(name, str) and len(name) <= LONGEST_QUEUE and QUEUE.fullmatch(name):
        return ""
    return f"queue {name!r}: give up to {LONGEST_QUEUE} letters, digits, . _ and -"


def problem_of_limit(limit: Any) -> str:
    """Return what is wrong with a limit of runs at once; empty: nothing. None is no limit."""
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit > 0):
        return ""
    return f"limit {limit!r}: give how many of its runs may execute at once, 1 or more"

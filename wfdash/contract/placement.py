"""Where runs of a workflow execute: the name of its queue. Pure."""

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

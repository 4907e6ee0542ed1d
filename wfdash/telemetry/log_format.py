"""Keeps the log readable: repeats are counted, and no record ends a line or moves the cursor.

Imports nothing of the product: logging is set up before everything else.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from wfdash.telemetry.log_context import current_facts
from wfdash.telemetry.log_filter import mask_secrets

PERIOD = 60.0
"""Seconds in which repeats are counted."""
MOST = 5
"""Records of one kind that are logged per period."""
KINDS = 500
"""Kinds of records that are remembered; the least recent is forgotten first."""
SHOWN = ("request", "run", "step")
"""What a line of text is about that its message may not say. The worker is the same for the whole log."""
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal or a log viewer interprets instead of showing them. Tabs are harmless."""
INDENT = "    "


class LimitRepeats(logging.Filter):
    """Logs a few records of a kind per minute; the next one says how many were left out.

    Of one kind are records of one line of code at one level; errors also by their class, and refused requests by their
    status and method. Different ids or addresses do not matter. Records below WARNING are never limited.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: OrderedDict[Any, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if record.levelno < logging.WARNING:
            return True
        passes, left_out = self._count_repeat(_kind(record))
        if passes and left_out:
            record.msg = f"{record.getMessage()} [{left_out:,} similar messages omitted]"
            record.args = ()
        return passes

    def _count_repeat(self, kind: Any) -> tuple[bool, int]:
        now = self._clock()
        with self._lock:
            began, count = self._seen.pop(kind, (now, 0))
            over = now - began >= PERIOD
            left_out = max(0, count - MOST) if over else 0
            began, count = (now, 1) if over else (began, count + 1)
            self._seen[kind] = (began, count)
            if len(self._seen) > KINDS:
                self._seen.popitem(last=False)
        return count <= MOST, left_out


def _kind(record: logging.LogRecord) -> Any:
    """Return what a record has in common with its repeats."""
    error = record.exc_info[0] if record.exc_info else None
    # Django logs everything it refuses at one place; what was requested is in the arguments.
    request = getattr(record, "request", None)
    refused = (getattr(record, "status_code", 0), getattr(request, "method", ""))
    return (record.name, record.levelno, record.pathname, record.lineno, error, refused)


class LineFormatter(logging.Formatter):
    """Formats records so that each starts one line: control characters are escaped, and a traceback is indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the first line, with the run, step and request that it is about."""
        text, known = super().formatMessage(record), current_facts()
        about = ", ".join(f"{name} {known[name]}" for name in SHOWN if name in known and known[name] not in text)
        return visible(f"{text} [{about}]" if about else text)

    def formatException(self, ei: Any) -> str:
        """Return a traceback, which may quote anything."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        """Return a stack."""
        return _indented(super().formatStack(stack_info))


def visible(text: str) -> str:
    r"""Return a text with its control characters written as ``\n``, ``\x1b`` and the like."""
    return CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _indented(text: str) -> str:
    return "\n".join(INDENT + visible(line) for line in mask_secrets(text).split("\n"))

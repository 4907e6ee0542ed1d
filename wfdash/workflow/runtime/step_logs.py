"""Python's ``logging`` in steps as events of the run. Nothing is captured before ``listen``."""

from __future__ import annotations

import logging
from collections.abc import Callable

from checkpoints.events import EventKind
from wfdash.workflow.runtime.step_ops import MOST_LOGGED, StepOps, running_step

LONGEST = 8_000
"""Characters of a record."""
OURS = ("wfdash", "checkpoints", "django", "channels", "daphne", "twisted", "asyncio")
"""Loggers of the dashboard and of its libraries: they say nothing about a step."""
EXAMPLES = "wfdash.examples"


class StepLogs(logging.Handler):
    """Hands records that were logged inside a step to that step; from any thread."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.users = 0
        self.before = logging.getLogger().level
        """The root logger's level, to be set again."""

    def emit(self, record: logging.LogRecord) -> None:
        """Make it an event, unless the step only repeats what it did before. What is not a step's is passed on."""
        ops = running_step.get()
        ours = record.name.partition(".")[0] in OURS and not record.name.startswith(EXAMPLES)
        if ops is not None and not ours and not ops.replay.is_behind():
            try:
                self._hand_over(ops, record)
            except Exception:
                self.handleError(record)
        last = logging.lastResort
        # What Python does where no handler is set: because of this one it would not any more.
        if last is not None and record.levelno >= last.level and not _has_others(record.name, self):
            last.handle(record)

    def _hand_over(self, ops: StepOps, record: logging.LogRecord) -> None:
        ops.logged += 1
        if ops.logged > MOST_LOGGED:
            return
        text = record.getMessage()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        text = "\n".join(part for part in (text, record.exc_text, record.stack_info) if part)
        message = _storable(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")
        data = {"level": record.levelname, "logger": _storable(record.name), "message": message}
        ops.host.event(ops.activation, EventKind.LOG, data)


def listen(level: int, *filters: logging.Filter) -> Callable[[], None]:
    """Begin to listen at the root logger; the returned function ends it. Several may: each record counts once.

    Where the root logger is not configured it lets records of this level through; else what it lets through
    is heard. ``filters`` see the records before they are kept.
    """
    root = logging.getLogger()
    found = next((handler for handler in root.handlers if isinstance(handler, StepLogs)), None)
    handler = found or StepLogs(level)
    if found is None:
        for one in filters:
            handler.addFilter(one)
        if not root.handlers:
            root.setLevel(min(level, handler.before) if handler.before else level)
        root.addHandler(handler)
    handler.users += 1

    def leave() -> None:
        handler.users -= 1
        if not handler.users:
            root.removeHandler(handler)
            root.setLevel(handler.before)

    return leave


def _has_others(name: str, me: logging.Handler) -> bool:
    here: logging.Logger | None = logging.getLogger(name)
    while here is not None:
        if any(handler is not me for handler in here.handlers):
            return True
        here = here.parent if here.propagate else None
    return False


def _storable(text: str) -> str:
    """Return it without half characters and NUL, which no database takes."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")

"""What is seen of running steps from outside: which one blocks an event loop, and what they write with ``logging``.

A watchdog in another thread reads the first from the stack of the loop's thread. Nothing is logged before ``listen``.
"""

from __future__ import annotations

import logging
import traceback
from asyncio import events
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from inspect import unwrap
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

from checkpoints.events import EventKind
from checkpoints.records import frozen
from wfdash.workflow.runtime.step_ops import MOST_LOGGED, StepOps, running_step
from wfdash.workflow.stored import is_engine_code

DEEPEST = 40
"""Calls of a stack that are reported."""


@frozen
class BlockingStep:
    """Code that a loop is in. ``step`` and all that belongs to it are empty where it is no step's.

    ``where``: file name and line in the step's own function, or where the loop was entered; ``stack``: as a traceback.
    """

    run: str = ""
    step: str = ""
    activation: str = ""
    item: int | None = None
    function: str = ""
    where: str = ""
    stack: str = ""


class DrivenByLibrary(Protocol):
    """A run whose steps a library calls. Asked from another thread."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def libraries(self) -> frozenset[str]:
        """Names of packages whose code is no step's."""

    def step_in(self, context: Context, frames: Sequence[FrameType]) -> tuple[str, str]:
        """Return step and activation of the code that runs in this context, with these frames from the outermost on;
        the activation is the same whenever the step runs again. Empty where it is no step's.
        """


_driven: ContextVar[DrivenByLibrary | None] = ContextVar("wfdash_driven", default=None)


def attribute_steps_to(driven: DrivenByLibrary) -> None:
    """Let what the current task and its child tasks run be steps of this run."""
    _driven.set(driven)


def find_blocking_step(frame: FrameType) -> BlockingStep:
    """Return what code the thread with this innermost frame is in. Reads only; the thread is not stopped."""
    frames = [frame]
    while frames[-1].f_back is not None:
        frames.append(frames[-1].f_back)
    frames.reverse()
    at = max((place for place, each in enumerate(frames) if each.f_code is events.Handle._run.__code__), default=-1)
    context = frames[at].f_locals["self"]._context if at >= 0 else Context()
    ops, driven = context.get(running_step), context.get(_driven)
    inside = [each for each in frames[at + 1 :] if not is_engine_code(each.f_code)] or [frame]
    if ops is not None:
        own = next((each for each in inside if each.f_code is code_of(ops)), inside[0])
    else:
        own = next((each for each in inside if driven is not None and not is_of(driven.libraries, each)), inside[0])
    found: dict[str, Any] = {
        "where": f"{Path(own.f_code.co_filename).name}:{own.f_lineno}",
        "function": own.f_code.co_qualname,
        "stack": "".join(
            traceback.format_list(traceback.StackSummary.extract((each, each.f_lineno) for each in inside[-DEEPEST:]))
        ),
    }
    if ops is not None:
        found |= {"run": ops.host.run_id, "step": ops.node.name, "activation": ops.activation, "item": ops.item}
    elif driven is not None:
        step, activation = driven.step_in(context, inside)
        found |= {"run": driven.run_id, "step": step, "activation": activation} if step else {}
    return BlockingStep(**found)


def is_of(packages: frozenset[str], frame: FrameType) -> bool:
    """Say whether code is that of one of these packages."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages


def code_of(ops: StepOps) -> CodeType | None:
    """Return the code of a step's function, None if it is no plain Python function."""
    code: CodeType | None = getattr(unwrap(ops.node.function), "__code__", None)
    return code


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

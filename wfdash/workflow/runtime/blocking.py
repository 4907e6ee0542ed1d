"""The step whose code blocks an event loop, read from its thread's stack by a watchdog in another thread."""

from __future__ import annotations

import traceback
from asyncio import events
from collections.abc import Sequence
from contextvars import Context, ContextVar
from dataclasses import dataclass
from inspect import unwrap
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

from wfdash.workflow.runtime.step_ops import StepOps, running_step
from wfdash.workflow.stored import is_engine_code

DEEPEST = 40
"""Calls of a stack that are reported."""


@dataclass(frozen=True, kw_only=True)
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

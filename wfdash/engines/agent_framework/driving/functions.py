"""Workflows that are functions: what the framework reports of them only at their end, as it happens.

The framework keeps the events of a function until it has ended or asks. They are taken here where they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wfdash.engines.agent_framework.driving.step_events import ExecutorEvents
from wfdash.engines.agent_framework.stored.position import Asker

BODY = "1"
"""The activation of the function itself: it begins first."""


def watch(workflow: Any, events: ExecutorEvents, interrupted: Mapping[str, str], check: Callable[[], None]) -> bool:
    """Report what a function and its steps do, as they do it; return whether that is possible.

    ``check`` is called before each, and may raise. ``interrupted``: activation -> step of those that asked, or waited
    for what asked: they continue as they were. Where the framework makes the context of a run has a private name; if
    that is gone, its events come when the function has ended.
    """
    if events.number:
        body = Asker(activation=BODY, step=workflow.name, request="")
        steps = [Asker(activation=key, step=step, request="") for key, step in interrupted.items() if key != BODY]
        events.resumed([body, *steps])
    execute = getattr(workflow, "_execute", None)
    if execute is None:
        return False

    async def observed(context: Any, message: Any) -> Any:
        events.began(workflow.name, message)
        add = context.add_event

        async def added(event: Any) -> None:
            check()
            await add(event)
            events.saw(event)

        context.add_event = added
        return await execute(context, message)

    workflow._execute = observed
    return True


def has_ended() -> bool:
    """Return whether the function has ended, or asked: the framework saves a last time."""
    from agent_framework import get_run_context

    return get_run_context() is None

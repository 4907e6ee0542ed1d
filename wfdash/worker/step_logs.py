"""Has what steps log kept as events of their runs, while a worker drives them; their lines in the log name the step."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings

from wfdash.telemetry import log_context
from wfdash.telemetry.log_filter import MaskLinks
from wfdash.workflow.runtime import step_logs
from wfdash.workflow.runtime.step_ops import running_step


def capture_step_logs() -> Callable[[], None]:
    """Begin to listen, from the level of ``WFDASH_LOG_LEVEL`` on; the returned function ends it."""
    log_context.add_source(_step_facts)
    level: int | None = settings.WFDASH_LOG_LEVEL
    return (lambda: None) if level is None else step_logs.listen(level, MaskLinks())


def _step_facts() -> log_context.Facts:
    step = running_step.get()
    return {} if step is None else {"step": step.node.name}

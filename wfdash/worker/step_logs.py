"""Has what steps log kept as events of their runs, while a worker drives them."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings

from wfdash.telemetry.log_filter import MaskLinks
from wfdash.workflow.runtime.step import step_logs


def capture_step_logs() -> Callable[[], None]:
    """Begin to listen, from the level of ``WFDASH_LOG_LEVEL`` on; the returned function ends it."""
    level: int | None = settings.WFDASH_LOG_LEVEL
    return (lambda: None) if level is None else step_logs.listen(level, MaskLinks())

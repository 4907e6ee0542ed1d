"""Has what steps log kept as events of their runs, while a worker drives them."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings

from wfdash.masks import MaskLinks
from wfdash.workflow import logs


def listen_to_steps() -> Callable[[], None]:
    """Begin to listen, from the level of ``WFDASH_LOG_LEVEL`` on; the returned function ends it."""
    level: int | None = settings.WFDASH_LOG_LEVEL
    return (lambda: None) if level is None else logs.listen(level, MaskLinks())

"""A tool's call as a recorded call: its arguments by name, and its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from checkpoints.records import Json
from wfdash.workflow import Context

RESERVED = frozenset(inspect.signature(Context.call).parameters) - {"args", "kwargs"}
"""Names that ``ctx.call`` has for itself."""


async def call_tool(
    ctx: Context, name: str, arguments: Mapping[str, Any], use: Callable[[], Coroutine[Any, Any, Json]], *, once: bool
) -> Any:
    """Return what a tool returned when it was called first. ``use`` calls it.

    What takes the call's place in a test gets the arguments by name; ``name``, ``once``, ``retry``, ``function`` and
    ``self`` with an underscore behind them.
    """

    async def called(**_: Any) -> Json:
        return await use()

    shown = {f"{key}_" if key in RESERVED else key: value for key, value in arguments.items()}
    return await ctx.call(called, name=name, once=once, **shown)

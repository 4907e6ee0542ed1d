"""A tool's call as a recorded call: its arguments by name, and its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from checkpoints.records import Json
from wfdash.schemas.secrets import masked, secret_names
from wfdash.workflow import Context

RESERVED = frozenset(inspect.signature(Context.call).parameters) - {"args", "kwargs"}
"""Names that ``ctx.call`` has for itself."""


async def call_tool(
    ctx: Context,
    name: str,
    arguments: Mapping[str, Any],
    use: Callable[[], Coroutine[Any, Any, Json]],
    *,
    once: bool,
    parameters: Mapping[str, Any] | None,
) -> Any:
    """Return what a tool returned when it was called first. ``use`` calls it, with the arguments as they are.

    ``parameters``: the JSON Schema of its arguments. The arguments of a ``once`` call are recorded, so people can say
    whether it happened: what the schema calls a secret is hidden in them. What takes the call's place in a test gets
    them by name; ``name``, ``once``, ``retry``, ``function`` and ``self`` with an underscore behind them.
    """

    async def called(**_: Any) -> Json:
        return await use()

    recorded = masked(dict(arguments), secret_names(parameters)) if once else arguments
    shown = {f"{key}_" if key in RESERVED else key: value for key, value in recorded.items()}
    return await ctx.call(called, name=name, once=once, **shown)

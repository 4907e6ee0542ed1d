"""What is used of LangGraph that it does not promise: each name once, and what happens where it is gone.

The tests say of each name that it is there and does what is expected; without it runs continue, as the functions'
docstrings say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextvars import Context
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph import types
from langgraph.pregel import Pregel

try:
    from langgraph.checkpoint.serde.types import _DeltaSnapshot
except ImportError:  # pragma: no cover - of versions to come
    _DeltaSnapshot = None  # type: ignore[assignment,misc]

try:
    from langgraph.errors import is_invalid_resume as _is_invalid_resume
except ImportError:  # of versions before 1.2.20
    _is_invalid_resume = None  # type: ignore[assignment]

try:
    from langchain_core.runnables.config import var_child_runnable_config as _config_of_task
except ImportError:  # pragma: no cover - of versions to come
    _config_of_task = None  # type: ignore[assignment]

DISTINCT_IDS = hasattr(types, "_interrupt_id")
"""Whether each question of a node has an id of its own. In earlier versions those after the first have the first's."""
STRICT_RESUME = "__pregel_strict_resume"
"""The key of a configuration by which a graph refuses answers to questions that are not asked. Unknown keys are ignored
by LangGraph; then only the engine's own check is left, which is made before.
"""
INTERRUPT, RESUME, ERROR, RETURN = "__interrupt__", "__resume__", "__error__", "__return__"
ERROR_SOURCE = "__error_source_node__"
CONTROL = frozenset({INTERRUPT, RESUME, ERROR, ERROR_SOURCE})
"""Writes that say what happened to a task, not what it produced. The first three are in every saver's protocol."""
NULL_TASK = "00000000-0000-0000-0000-000000000000"
"""The task of writes that come from outside."""


def has_ended(written: Mapping[str, Any]) -> bool:
    """Return whether a task has ended, by what the thread holds of its writes."""
    return any(channel not in CONTROL for channel, _ in written["at"].values())


def namespace_in(context: Context) -> str:
    """Return the namespace of the task whose code runs in a context, ``a:1f2e|b:3d4c``; empty if it is no task's.

    Without the variable that LangGraph keeps a task's configuration in, no task that blocks the event loop is known.
    """
    config = context.get(_config_of_task) if _config_of_task is not None else None
    return str((config or {}).get("metadata", {}).get("langgraph_checkpoint_ns", ""))


def with_saver(graph: Pregel[Any, Any, Any, Any], saver: Any) -> Pregel[Any, Any, Any, Any]:
    """Return a copy of a graph that saves with this saver, whatever its author compiled it with.

    Its channels that store only what was written to them (``DeltaChannel``) store their whole value at each step, which
    chunks make cheap. Where they have no such setting, the saver keeps what was written. ``Pregel.copy`` is public but
    not documented; without it a shallow copy of the object does the same.
    """
    update: dict[str, Any] = {"checkpointer": saver, "channels": _snapshotting(graph.channels)}
    try:
        return graph.copy(update)
    except (AttributeError, TypeError):
        import copy

        twin = copy.copy(graph)
        for name, value in update.items():
            setattr(twin, name, value)
        return twin


def _snapshotting(channels: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, channel in channels.items():
        found[name] = channel
        if getattr(channel, "snapshot_frequency", 1) != 1:
            twin = channel.copy()
            with contextlib.suppress(AttributeError):
                twin.snapshot_frequency = 1
            found[name] = twin
    return found


def has_chat_models() -> bool:
    """Return whether this process has loaded a chat model, whose text can be streamed.

    To listen for it costs every node a tenth of a millisecond, which a graph without a model need not pay.
    """
    waiting = [BaseChatModel]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if not kind.__module__.startswith("langchain_core."):
                return True
            waiting.append(kind)
    return False


def delta_value(value: Any) -> Any:
    """Return the whole value that such a channel's snapshot holds; any other value unchanged."""
    return value.value if _DeltaSnapshot is not None and isinstance(value, _DeltaSnapshot) else value


def is_invalid_resume(error: BaseException) -> bool:
    """Return whether a step's error says that an answer does not match its ``response_schema``; False if unknown."""
    return _is_invalid_resume is not None and _is_invalid_resume(error)


def delta_channels_in(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the channels whose value a checkpoint does not hold, as its metadata says (documented as beta)."""
    return frozenset(metadata.get("counters_since_delta_snapshot") or ())

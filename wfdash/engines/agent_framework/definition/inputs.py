"""What starts a workflow: the types its first executor takes, as a schema, and JSON as a message of one of them."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from checkpoints.records import Json
from wfdash.contract import InvalidInput
from wfdash.engines.agent_framework.definition.answer_types import chat_kind, input_schema, read_input
from wfdash.engines.agent_framework.definition.definitions import executors_of
from wfdash.engines.agent_framework.library import is_function, is_kind, is_of
from wfdash.engines.serving import Served


class TakesNothing(ValueError):
    """A function without a message cannot be run by the framework: the message says what to add."""


class NotTaken(ValueError):
    """An option of ``serve`` that the framework has no place for: the message says which it has."""


OPTIONS = frozenset({"client_kwargs", "function_invocation_kwargs", "tools"})
"""Names of ``config`` for a graph: what its agents hand to chat clients and tools, and further tools."""


def schema_for(served: Served, workflow: Any) -> dict[str, Json]:
    """Return the schema of the input: that given to ``serve``, else that of the workflow's own types."""
    return dict(served.input) if isinstance(served.input, dict) else input_schema(kinds_of(served, workflow))


def input_for(served: Served, workflow: Any, message: Json) -> Any:
    """Return JSON as the message that the workflow's first executor takes. ``InvalidInput``."""
    if isinstance(served.input, dict) and chat_kind(kinds_of(served, workflow)) is None:
        found = message
    else:
        found = read_input(kinds_of(served, workflow), message)
    if found is None:
        raise InvalidInput([{"loc": [], "msg": "Agent Framework starts no workflow with nothing: enter a value"}])
    return found


def follow_up_schema(served: Served, workflow: Any) -> dict[str, Json] | None:
    """Return the schema of a follow-up message: that of a conversation; None for a workflow that holds none."""
    if is_function(workflow) or isinstance(served.input, dict) or _takes_no_more(workflow):
        return None
    kinds = kinds_of(served, workflow)
    return input_schema(kinds) if chat_kind(kinds) is not None else None


def _takes_no_more(workflow: Any) -> bool:
    """Return whether a finished workflow refuses any further message, as Magentic does."""
    return any(is_of(executor, "MagenticOrchestrator") for executor in executors_of(workflow).values())


def options_for(served: Served, workflow: Any) -> dict[str, Any]:
    """Return what the workflow is run with besides its message: ``config`` of ``serve``. ``NotTaken``."""
    unknown = set() if is_function(workflow) else served.config.keys() - OPTIONS
    if unknown:
        raise NotTaken(f"serve(config=): Agent Framework takes {', '.join(sorted(OPTIONS))}, not {min(unknown)}")
    if served.context is not None:
        raise NotTaken("serve(context=): Agent Framework takes no context; give config=")
    return dict(served.config)


def kinds_of(served: Served, workflow: Any) -> list[Any]:
    """Return the types that start a workflow."""
    if served.input is not None and not isinstance(served.input, dict):
        return [served.input]
    if not is_function(workflow):
        return list(workflow.input_types)
    return [_message_type(workflow.__wrapped__)]


def _message_type(function: Any) -> Any:
    try:
        hints = get_type_hints(function)
    except Exception:  # An annotation that cannot be resolved says nothing of the type.
        hints = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints.get(name, parameter.annotation)
        if name != "ctx" and not is_kind(kind, "RunContext"):
            return Any if kind is parameter.empty else kind
    raise TakesNothing(
        f"{function.__name__} takes no message, and Agent Framework runs no workflow without one: add a parameter"
    )

"""Which classes a worker may read from a checkpoint of a workflow: those it names, and those its modules define."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from wfdash.engines.agent_framework.definitions import executors_of, is_function, nested
from wfdash.engines.agent_framework.encoding import PickleCodec, classes_in, key_of


def codec_of(workflow: Any) -> PickleCodec:
    """Return the codec for values of this workflow."""
    # Here, because it imports the framework, which only workflows need.
    from checkpoints.agent_framework import registered_types

    named = frozenset(key_of(kind) for kind in _closed(_named(workflow)))
    defined = (classes_in(one) for one in namespaces(workflow))
    return PickleCodec(named.union(registered_types(), *defined))


def _named(workflow: Any) -> Iterator[Any]:
    """Yield the types that handlers of a workflow take and give."""
    if is_function(workflow):
        yield from _hints(workflow.__wrapped__).values()
    for executor in executors_of(workflow).values():
        yield from (*executor.input_types, *executor.output_types, *executor.workflow_output_types)
        yield from (kind for pair in response_types(executor) for kind in pair)
    for _, inner in nested(workflow):
        yield from _named(inner)


def response_types(executor: Any) -> list[tuple[Any, Any]]:
    """Return the types of an executor's questions, each with that of its answers.

    The framework keeps them under a private name; where that is gone, answers are judged by their schema alone.
    """
    return list(getattr(executor, "_response_handlers", ()))


def namespaces(workflow: Any) -> list[dict[str, Any]]:
    """Return the namespaces of the modules in which the workflow's code is written, each once."""
    found = {id(one): one for one in _namespaces(workflow)}
    return list(found.values())


def _namespaces(workflow: Any) -> Iterator[dict[str, Any]]:
    if is_function(workflow):
        yield workflow.__wrapped__.__globals__
    for executor in executors_of(workflow).values():
        function = getattr(executor, "_original_func", None)
        if function is not None and hasattr(function, "__globals__"):
            yield function.__globals__
        module = sys.modules.get(type(executor).__module__)
        if module is not None and not type(executor).__module__.startswith("agent_framework"):
            yield vars(module)
    for _, inner in nested(workflow):
        yield from _namespaces(inner)


def _closed(kinds: Iterable[Any]) -> set[type]:
    """Return the classes among these types, and those of the fields of each."""
    found: set[type] = set()
    pending = list(kinds)
    while pending:
        kind = pending.pop()
        if get_origin(kind) is not None:
            pending += get_args(kind)
        elif isinstance(kind, type) and kind not in found:
            found.add(kind)
            if issubclass(kind, BaseModel) or is_dataclass(kind):
                pending += _field_types(kind)
    return found


def _field_types(kind: type) -> list[Any]:
    if issubclass(kind, BaseModel):
        return [field.annotation for field in kind.model_fields.values()]
    hints = _hints(kind)
    return [hints.get(field.name) for field in fields(kind)]  # type: ignore[arg-type]


def _hints(value: Any) -> dict[str, Any]:
    try:
        return get_type_hints(value)
    except Exception:  # An annotation that cannot be resolved names nothing.
        return {}

"""Workflows of the framework: which objects are some, and one for a drive: made by its factory, or copied.

Nothing of the framework is imported here: an object of one of its classes exists only where its module was imported.

The object of the module is never run. A workflow of the framework holds the messages, pending requests and state of
what it ran last, so that two runs of one object see each other's. What holds nothing of a run is shared: agents and
their clients, which are made for that and often cannot be copied.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from wfdash.engines.serving import Served

OWN = ("agent_framework", "agent_framework_orchestrations")
"""The framework's own packages."""
GRAPHS = frozenset({"Workflow"})
FUNCTIONS = frozenset({"FunctionalWorkflowDefinition", "FunctionalWorkflow"})


def is_own(module: str) -> bool:
    """Return whether a module of this name is the framework's own."""
    return module.partition(".")[0] in OWN


def is_graph(value: object) -> bool:
    """Return whether this is a workflow that a ``WorkflowBuilder`` has built."""
    return _is_one_of(value, GRAPHS)


def is_function(value: object) -> bool:
    """Return whether this is a function with ``@workflow``, or what its ``build()`` returned."""
    return _is_one_of(value, FUNCTIONS)


def is_workflow(value: object) -> bool:
    """Return whether this is a workflow of the framework."""
    return _is_one_of(value, GRAPHS | FUNCTIONS)


def is_of(value: object, *names: str) -> bool:
    """Return whether a value is of one of the framework's own classes with these names, or of a subclass."""
    return _is_one_of(value, frozenset(names))


def is_kind(kind: Any, *names: str) -> bool:
    """Return whether a class is one of the framework's own with these names, or a subclass."""
    return isinstance(kind, type) and any(_is_ours(one, frozenset(names)) for one in kind.__mro__)


def _is_one_of(value: object, names: frozenset[str]) -> bool:
    return any(_is_ours(kind, names) for kind in type(value).__mro__)


def _is_ours(kind: type, names: frozenset[str]) -> bool:
    return kind.__name__ in names and is_own(kind.__module__)


class NotCopyable(ValueError):
    """A workflow holds something that cannot be copied for a run: the message says what to serve instead."""


def workflow_for_drive(served: Served) -> Any:
    """Return a workflow that nothing else runs: a ``Workflow`` or a ``FunctionalWorkflow``. ``NotCopyable``."""
    found = served.make()
    if is_function(found):
        # Both wrap the function of the author; a new one holds nothing of a run.
        return (
            found.build()
            if hasattr(found, "build")
            else type(found)(found.__wrapped__, name=found.name, description=found.description)
        )
    if served.factory:
        return found
    try:
        return copy.deepcopy(found, {id(one): one for one in _shared(found)})
    except Exception as error:
        name = served.given_name or getattr(found, "name", "workflow")
        raise NotCopyable(
            f"{name} cannot be copied for each run ({type(error).__name__}: {error}). Serve a function that builds it: "
            f"{name} = serve(build_{name})"
        ) from error


def _shared(workflow: Any) -> Iterator[Any]:
    """Yield the agents and clients that its executors hold, at any depth."""
    seen: set[int] = set()
    pending: list[Any] = [workflow]
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, (str, bytes, int, float, type(None), type)):
            continue
        seen.add(id(value))
        if is_of(value, "RawAgent", "Agent", "BaseChatClient"):
            yield value
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, (list, tuple, set, frozenset)):
            pending += value
        else:
            pending += vars(value).values() if hasattr(value, "__dict__") and not callable(value) else ()


def executors_of(workflow: Any) -> dict[str, Any]:
    """Return the executors of a graph by id; none for a function."""
    return dict(workflow.executors) if is_graph(workflow) else {}


def nested(workflow: Any) -> Iterator[tuple[str, Any]]:
    """Yield each executor of a graph that runs a workflow of its own, by id, with that workflow."""
    for name, executor in executors_of(workflow).items():
        inner = getattr(executor, "workflow", None)
        if inner is not None and is_graph(inner):
            yield name, inner


def receivers(workflow: Any, messages: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the executors that messages on their way may reach: by what they name, or by the edges of their sender.

    A function runs again as a whole.
    """
    if is_function(workflow):
        return (workflow.name,)
    edges = [edge for group in workflow.edge_groups for edge in group.edges]
    found: set[str] = set()
    for source, sent in messages.items():
        named = {message.target_id for message in sent}
        linked = {edge.target_id for edge in edges if edge.source_id == source}
        found |= {one for one in named if one} or linked
    return tuple(sorted(found & executors_of(workflow).keys()))


def agents_of(workflow: Any) -> Iterator[Any]:
    """Yield the agents of a graph's executors, at any depth."""
    for executor in executors_of(workflow).values():
        agent = getattr(executor, "agent", None)
        if agent is not None:
            yield agent
    for _, inner in nested(workflow):
        yield from agents_of(inner)


def tools_of(agent: Any) -> list[Any]:
    """Return the tools of an agent."""
    options = getattr(agent, "default_options", None)
    found = options.get("tools") if isinstance(options, Mapping) else None
    return list(found) if isinstance(found, (list, tuple)) else [found] if found is not None else []


def steps_of(workflow: Any) -> list[str]:
    """Return the names of a function's steps, as far as they can be found in its code.

    The framework finds them by a private name; where it is gone, none are drawn before they run.
    """
    find = getattr(type(workflow), "_discover_workflow_dependencies", None)
    if find is None:
        return []
    wrappers, _ = find(workflow.__wrapped__)
    return sorted({wrapper.name for wrapper in wrappers})

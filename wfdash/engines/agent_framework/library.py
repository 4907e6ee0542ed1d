"""Which objects are workflows of the framework, or others of its classes.

Nothing of it is imported here: an object of one of its classes exists only where its module was imported.
"""

from __future__ import annotations

from typing import Any

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

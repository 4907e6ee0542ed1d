"""Where the code of a workflow's steps is written."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from wfdash.engines.agent_framework.definition.definitions import executors_of
from wfdash.engines.agent_framework.library import is_function


def code_places(workflow: Any) -> tuple[tuple[str, str, int], ...]:
    """Return each step that is an author's function or class: its name, file and first line."""
    return tuple(_places(workflow))


def _places(workflow: Any) -> Iterator[tuple[str, str, int]]:
    sources = {name: _written(executor) for name, executor in executors_of(workflow).items()}
    if is_function(workflow):
        sources[workflow.name] = workflow.__wrapped__
    for name, source in sources.items():
        code = getattr(inspect.unwrap(source), "__code__", None) if callable(source) else None
        if code is not None:
            yield name, code.co_filename, code.co_firstlineno
        elif isinstance(source, type):
            yield from _of_class(name, source)


def _written(executor: Any) -> Any:
    """Return the function or class in which an author wrote an executor; None for the framework's own."""
    function = getattr(executor, "_original_func", None)
    own = type(executor)
    return function or (None if own.__module__.startswith("agent_framework") else own)


def _of_class(name: str, kind: type) -> Iterator[tuple[str, str, int]]:
    try:
        yield name, inspect.getsourcefile(kind) or "", inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return

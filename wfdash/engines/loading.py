"""Engines by name: those an installation lists, and those that installed packages offer. Pure but for the imports.

A package offers its engine as an entry point of the group ``wfdash.engines``. An engine that cannot be loaded is a
``Missing`` with what to do about it; the others are used all the same.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from wfdash.contract import Engine

GROUP = "wfdash.engines"
"""The entry points of packages with engines."""
METHODS = ("accepts", "describe", "check_input", "drive")


@dataclass(frozen=True, kw_only=True)
class Missing:
    """An engine that could not be loaded: its path, the error as a sentence, and the traceback."""

    path: str
    error: str
    traceback: str


def load_engines(paths: Sequence[str]) -> tuple[list[Engine], list[Missing]]:
    """Return the engines of these dotted paths and of installed packages, each once, in this order."""
    engines: list[Engine] = []
    missing: list[Missing] = []
    for path in dict.fromkeys([*paths, *offered()]):
        try:
            engines.append(_load(path))
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            missing.append(Missing(path=path, error=_words(path, error), traceback=trace))
    return engines, missing


@cache
def offered() -> tuple[str, ...]:
    """Return the paths of the engines that installed packages offer, looked up once per process.

    Metadata of all packages are read for it, which takes longer than everything else that a reload does.
    """
    return tuple(sorted(point.value.replace(":", ".") for point in entry_points(group=GROUP)))


def _load(path: str) -> Engine:
    module, _, name = path.strip().rpartition(".")
    if not module:
        raise ValueError("an engine is named with its module, as in package.module.Engine")
    try:
        kind = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ImportError(f"module {module!r} has no {name!r}") from None
    engine: Engine = kind()
    if lacks := [method for method in METHODS if not callable(getattr(engine, method, None))]:
        raise TypeError(f"it has no method {lacks[0]}")
    if not isinstance(getattr(engine, "name", None), str):
        raise TypeError("it has no name")
    return engine


def _words(path: str, error: Exception) -> str:
    cause = str(error) or type(error).__name__
    lacking = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    remedy = f": install the package with {lacking!r}, or take it out of WFDASH_ENGINES" if lacking else ""
    return f"The engine {path} cannot be used: {cause}{remedy}"

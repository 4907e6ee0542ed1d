"""Classes by name, found again in loaded code, wherever their file or package is.

A class of the step's own module is called ``:Qualname``, every other ``module:Qualname``. Nothing is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def class_name(kind: type, home: Mapping[str, Any]) -> str:
    """Return a class's name for code with these globals."""
    return f"{'' if kind.__module__ == home.get('__name__') else kind.__module__}:{kind.__qualname__}"


def find_class(name: str, home: Mapping[str, Any]) -> type | None:
    """Return the class of this name for code with these globals, None if there is none.

    If its module is not loaded or no longer has it, it is searched at home: it may have moved there, and classes of a
    file used to be named by the folder of the file.
    """
    module, _, path = name.partition(":")
    loaded = vars(sys.modules[module]) if module in sys.modules else {}
    found = _found(loaded if module else home, path)
    return found if found is not None or not module else _found(home, path)


def _found(names: Mapping[str, Any], path: str) -> type | None:
    first, *more = path.split(".")
    found = names.get(first)
    for part in more:
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None

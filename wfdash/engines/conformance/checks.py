"""How checks say what they need, and how those of a module are listed."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from wfdash.engines.conformance.worlds import EngineWorld

Check: TypeAlias = Callable[[EngineWorld], Awaitable[None]]


def needs(*what: Any) -> Callable[[Check], Check]:
    """Say which samples (by name) and abilities (protocols of the contract) a check needs."""

    def mark(check: Check) -> Check:
        check.needs = what  # type: ignore[attr-defined]
        return check

    return mark


def checks_in(names: dict[str, Any]) -> tuple[Check, ...]:
    """Return the checks of a module, in order: its own async functions of one ``world``."""
    found = (value for value in names.values() if inspect.iscoroutinefunction(value))
    mine = (value for value in found if value.__module__ == names["__name__"] and not value.__name__.startswith("_"))
    return tuple(value for value in mine if list(inspect.signature(value).parameters) == ["world"])

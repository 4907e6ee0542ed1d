"""The values of ``after=``: where a step's message comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias


class Named(Protocol):
    """Anything that can be named as a step: a step, or a sub-workflow."""

    @property
    def name(self) -> str:
        """The step's name in its workflow."""


Source: TypeAlias = "Named | Case | str"
After: TypeAlias = "Source | Join | Each | Gather | Sequence[Source]"


@dataclass(frozen=True, slots=True)
class Case:
    """One way out of a switch. ``value`` is None and ``default`` True for the way nothing else took."""

    source: Named | str
    switch: str
    key: Callable[[Any], Any]
    value: Any = None
    default: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """Routes what ``source`` returned by ``key(value)``; use ``.case(x)`` and ``.default`` in ``after=``."""

    source: Named | str
    name: str
    key: Callable[[Any], Any]

    def case(self, value: Any) -> Case:
        """Return the way taken when ``key(...)`` equals ``value``."""
        return Case(self.source, self.name, self.key, value)

    @property
    def default(self) -> Case:
        """The way taken when no case of this switch matched."""
        return Case(self.source, self.name, self.key, default=True)


@dataclass(frozen=True, slots=True)
class Join:
    """Waits for several sources: fires once ``need`` of them arrived (None: all that still can)."""

    sources: tuple[Source, ...]
    need: int | None
    single: bool = False
    """True: the message is the one value that came first, not a list."""


@dataclass(frozen=True, slots=True)
class Each:
    """One activation per item of the list that ``source`` returns."""

    source: Source


@dataclass(frozen=True, slots=True)
class Gather:
    """Closes the innermost map around its sources."""

    sources: tuple[Source, ...]


def all_of(*sources: Source) -> Join:
    """Wait for every source that can still arrive. Message: list of their outputs in this order."""
    return Join(sources, None)


def any_of(*sources: Source) -> Join:
    """Go on with the first that arrives, ignore the others. Message: its output."""
    return Join(sources, 1, single=True)


def n_of(need: int, *sources: Source) -> Join:
    """Go on once ``need`` sources arrived, ignore the others. Message: list of outputs in this order.

    If fewer than ``need`` can still arrive, the step does not run.
    """
    return Join(sources, need)


def each(source: Source) -> Each:
    """Run the step once per item of the list ``source`` returns; what follows stays with its item."""
    return Each(source)


def gather(*sources: Source) -> Gather:
    """Close the innermost map: run once when nothing of it can still arrive.

    Message: list of what arrived, in item order; ``[]`` at once for an empty map.
    """
    return Gather(sources)

"""The values of ``after=``: where a step's message comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias


class Named(Protocol):
    """Anything that can be named as a step: a step, or a sub-workflow."""

    @property
    def name(self) -> str:
        """Return the step's name in its workflow."""


Source: TypeAlias = "Named | Case | str"
After: TypeAlias = "Source | Join | Each | Gather | Sequence[Source]"


@dataclass(frozen=True, slots=True)
class Case:
    """One branch of a switch. ``value`` is None and ``default`` True for the branch of all other values."""

    source: Named | str
    switch: str
    key: Callable[[Any], Any]
    value: Any = None
    default: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """Routes the output of ``source`` by ``key(value)``; use ``.case(x)`` and ``.default`` in ``after=``."""

    source: Named | str
    name: str
    key: Callable[[Any], Any]

    def case(self, value: Any) -> Case:
        """Return the branch taken when ``key(...)`` equals ``value``."""
        return Case(self.source, self.name, self.key, value)

    @property
    def default(self) -> Case:
        """Return the branch taken when no case of this switch matched."""
        return Case(self.source, self.name, self.key, default=True)


@dataclass(frozen=True, slots=True)
class Join:
    """Waits for several sources: fires once ``need`` of them arrived (None: all that still can)."""

    sources: tuple[Source, ...]
    need: int | None
    single: bool = False
    """True: the message is the first value, not a list."""


@dataclass(frozen=True, slots=True)
class Each:
    """One activation per item of the list that ``source`` returns. ``label``: what an item is called."""

    source: Source
    label: str = ""


@dataclass(frozen=True, slots=True)
class Gather:
    """Closes the innermost map around its sources."""

    sources: tuple[Source, ...]


def all_of(*sources: Source) -> Join:
    """Return a join of every source that can still arrive. Message: list of their outputs in this order."""
    return Join(sources, None)


def any_of(*sources: Source) -> Join:
    """Return a join that continues with the first that arrives and ignores the others. Message: its output."""
    return Join(sources, 1, single=True)


def n_of(need: int, *sources: Source) -> Join:
    """Return a join that continues once ``need`` sources arrived. Message: list of outputs in this order.

    If fewer than ``need`` can still arrive, the step does not run.
    """
    return Join(sources, need)


def each(source: Source, *, label: str = "") -> Each:
    """Return a map: the step runs once per item of the list ``source`` returns; later steps stay with their item.

    ``label``: what an item is called in all its steps, with fields of the item: ``"{employee}: {amount}"``.
    """
    return Each(source, label)


def gather(*sources: Source) -> Gather:
    """Return the end of the innermost map: the step runs once when nothing of it can still arrive.

    Message: list of what arrived, in item order; ``[]`` at once for an empty map.
    """
    return Gather(sources)

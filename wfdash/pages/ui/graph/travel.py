"""Which edges of a graph a run took. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from wfdash.contract import EdgeInfo

MEETS = frozenset({"gather", "join"})


class Transition(Protocol):
    """A transition of an activation of a step."""

    @property
    def step(self) -> str: ...
    @property
    def activation(self) -> str: ...
    @property
    def state(self) -> str: ...


def travelled(edges: Iterable[EdgeInfo], moves: Sequence[Transition]) -> frozenset[tuple[str, str]]:
    """Return (source, target) of the edges that were taken; ``moves`` oldest first.

    A step was started by the predecessor that had finished last; where edges join, by all that had finished.
    """
    into: dict[str, list[EdgeInfo]] = {}
    for edge in edges:
        into.setdefault(edge.target, []).append(edge)
    done: dict[str, int] = {}
    begun: set[tuple[str, str]] = set()
    taken: set[tuple[str, str]] = set()
    for place, move in enumerate(moves):
        if move.state == "done":
            done[move.step] = place
        elif move.state == "running" and (move.step, move.activation) not in begun:
            begun.add((move.step, move.activation))
            taken |= _leading(into.get(move.step, ()), done)
    return frozenset(taken)


def _leading(edges: Iterable[EdgeInfo], done: dict[str, int]) -> set[tuple[str, str]]:
    ready = [edge for edge in edges if edge.source in done]
    last = max((done[edge.source] for edge in ready), default=-1)
    return {(edge.source, edge.target) for edge in ready if edge.kind in MEETS or done[edge.source] == last}

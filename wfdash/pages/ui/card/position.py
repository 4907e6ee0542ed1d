"""The position of a run when it asked: the steps on its path, where it is, what certainly comes next. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from wfdash.contract import Description, EdgeInfo, StepInfo
from wfdash.pages.ui.event_text import step_label
from wfdash.pages.ui.graph import Transition, travelled

NEAR = 3
"""Steps shown on either side; those beyond are counted."""


class TimedTransition(Transition, Protocol):
    """A transition with its time; see ``queries.StepTransition``."""

    @property
    def at(self) -> datetime: ...
    @property
    def skipped(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class PathStep:
    """A step on the path. ``state``: done | here | ahead | more (then ``title`` says how many)."""

    title: str
    state: str


def path_through(
    description: Description, step: str, moves: Sequence[TimedTransition] = (), asked: datetime | None = None
) -> tuple[PathStep, ...]:
    """Return the path of one run through its graph; empty if the step is not in it.

    ``moves``: the run's transitions, oldest first. Done is what finished and led here before ``asked``; a branch that
    was not taken, or was skipped, is not on the path. Ahead is only what follows whatever is decided.
    """
    titles = {info.name: info.title or step_label(info.name) for info in description.steps}
    if step not in titles:
        return ()
    before = [move for move in moves if (asked is None or move.at <= asked) and not move.skipped]
    came = [titles[name] for name in _came(description.edges, step, before) if name in titles]
    goes = [titles[name] for name in _certain(description, step)]
    here = PathStep(title=titles[step], state="here")
    return (*_side(came, "done")[::-1], here, *_side(goes, "ahead"))


def _came(edges: Iterable[EdgeInfo], step: str, moves: Sequence[TimedTransition]) -> list[str]:
    """Return the steps that led to this one along edges that were taken, the one that finished last first."""
    sources: dict[str, set[str]] = {}
    for source, target in travelled(edges, moves):
        sources.setdefault(target, set()).add(source)
    found, left = set[str](), [step]
    while left:
        fresh = sources.get(left.pop(), set()) - found
        found |= fresh
        left += fresh
    finished = {move.step: place for place, move in enumerate(moves) if move.state == "done"}
    return sorted(found & finished.keys() - {step}, key=lambda name: -finished[name])


def _certain(description: Description, step: str) -> list[str]:
    """Return the steps that follow in any case, up to where the path parts or ends."""
    known = {info.name: info for info in description.steps}
    leaving: dict[str, list[EdgeInfo]] = {}
    for edge in description.edges:
        leaving.setdefault(edge.source, []).append(edge)
    way: list[str] = []
    here = step
    while True:
        edges = [edge for edge in leaving.get(here, ()) if edge.target in known]
        if not edges or not all(_leads(edge, known) for edge in edges) or _leads_into(edges, way, step):
            return way
        way += [edge.target for edge in edges]
        if len(edges) > 1:
            return way
        here = edges[0].target


def _leads_into(edges: Iterable[EdgeInfo], way: Collection[str], step: str) -> bool:
    return any(edge.target == step or edge.target in way for edge in edges)


def _leads(edge: EdgeInfo, known: Mapping[str, StepInfo]) -> bool:
    """Return whether every message of a step takes this edge: no condition, and no other type that could leave it."""
    if edge.kind in {"join", "gather"}:
        return edge.label in {"", "all", "gather"}
    takes = known[edge.target].takes
    return edge.kind == "plain" and takes in {"", known[edge.source].gives}


def _side(titles: list[str], state: str) -> list[PathStep]:
    """Return the nearest steps first, then how many more there are."""
    far = len(titles) - NEAR
    near = [PathStep(title=title, state=state) for title in (titles[:NEAR] if far > 1 else titles)]
    return [*near, *([PathStep(title=f"{far} more", state="more")] if far > 1 else [])]

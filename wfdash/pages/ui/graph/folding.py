"""Folding of sub-workflows into one step each, until a person opens them. Pure."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from wfdash.contract import Description, EdgeInfo, StepInfo

ALL = "*"
"""Opens every sub-workflow."""


@dataclass(frozen=True, kw_only=True)
class Folded:
    """A graph with sub-workflows folded. ``names``: step -> the drawn step. ``folded``: those that contain others."""

    description: Description
    names: dict[str, str]
    folded: frozenset[str]


def with_parents(description: Description) -> Description:
    """Return the graph with a step for every sub-workflow that is named as a parent only."""
    known = {step.name for step in description.steps}
    added: dict[str, StepInfo] = {}
    waiting = [step.parent for step in description.steps if step.parent]
    while waiting:
        name = waiting.pop()
        if name not in known and name not in added:
            above = name.rpartition("/")[0] or None
            added[name] = StepInfo(name=name, parent=above)
            waiting += [above] if above else []
    return description.model_copy(update={"steps": (*description.steps, *added.values())}) if added else description


def fold(description: Description, opened: Container[str] = ()) -> Folded:
    """Return the graph with every sub-workflow folded that is not among ``opened``; edges within are left out."""
    description = with_parents(description)
    parents = {step.name: step.parent for step in description.steps}
    names = {name: _drawn_as(name, parents, opened) for name in parents}
    edges: dict[tuple[str, str], EdgeInfo] = {}
    for edge in description.edges:
        source, target = names.get(edge.source, edge.source), names.get(edge.target, edge.target)
        if source != target or edge.source == edge.target:
            edges.setdefault((source, target), edge.model_copy(update={"source": source, "target": target}))
    kept = tuple(step for step in description.steps if names[step.name] == step.name)
    folded = frozenset(shown for name, shown in names.items() if name != shown)
    drawn = description.model_copy(update={"steps": kept, "edges": tuple(edges.values())})
    return Folded(description=drawn, names=names, folded=folded)


def _drawn_as(name: str, parents: dict[str, str | None], opened: Container[str]) -> str:
    """Return the outermost closed sub-workflow around a step, or the step itself; circular parents have none."""
    line = [name]
    while (above := parents.get(line[-1])) is not None and above in parents:
        if above in line:
            return name
        line.append(above)
    return next((one for one in reversed(line[1:]) if ALL not in opened and one not in opened), name)

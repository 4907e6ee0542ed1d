"""Folding of sub-workflows, and of similar steps, into one step each, until a person opens them. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field

from wfdash.contract import Description, EdgeInfo, StepInfo

ALL = "*"
"""Opens every sub-workflow and every group of similar steps."""
SIMILAR = "similar:"
"""How the name of such a group begins; the name of a step contains no colon."""
LEAST_SIMILAR = 4
MOST_APART = 3
"""Steps of a group that are drawn beside it, because they need attention."""


@dataclass(frozen=True, kw_only=True)
class Folded:
    """A graph with sub-workflows and similar steps folded. ``names``: step -> the drawn step.

    ``folded``: drawn steps that contain others. ``similar``: of those, the groups, with their steps; ``groups``: all
    that could be folded.
    """

    description: Description
    names: dict[str, str]
    folded: frozenset[str]
    similar: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()


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


def fold(description: Description, opened: Container[str] = (), apart: Collection[str] = ()) -> Folded:
    """Return the graph with everything folded that is not among ``opened``; edges within are left out.

    ``apart``: steps that are drawn beside the similar ones: the chosen one, and those that need attention.
    """
    description = with_parents(description)
    parents = {step.name: step.parent for step in description.steps}
    names = {name: _drawn_as(name, parents, opened) for name in parents}
    inner = _drawn(description, names)
    groups = _similar_groups(inner)
    similar = {
        name: _without(steps, apart) for name, steps in groups.items() if ALL not in opened and name not in opened
    }
    similar = {name: steps for name, steps in similar.items() if len(steps) >= LEAST_SIMILAR}
    into = {step: name for name, steps in similar.items() for step in steps}
    names = {name: into.get(shown, shown) for name, shown in names.items()}
    return Folded(
        description=_with_groups(inner, similar, into),
        names=names,
        folded=frozenset(shown for name, shown in names.items() if name != shown),
        similar=similar,
        groups=frozenset(groups),
    )


def _drawn(description: Description, names: Mapping[str, str]) -> Description:
    """Return the graph of the drawn steps: edges between them, each once."""
    edges: dict[tuple[str, str], EdgeInfo] = {}
    for edge in description.edges:
        source, target = names.get(edge.source, edge.source), names.get(edge.target, edge.target)
        if source != target or edge.source == edge.target:
            edges.setdefault((source, target), edge.model_copy(update={"source": source, "target": target}))
    kept = tuple(step for step in description.steps if names.get(step.name, step.name) == step.name)
    return description.model_copy(update={"steps": kept, "edges": tuple(edges.values())})


def _similar_groups(description: Description) -> dict[str, tuple[str, ...]]:
    """Return the steps between the very same others, led to and left by edges of the same kind and label."""
    frames = {step.parent for step in description.steps}
    ways: dict[str, set[tuple[str, ...]]] = {}
    for edge in description.edges:
        ways.setdefault(edge.source, set()).add(("to", edge.target, edge.kind, edge.label))
        ways.setdefault(edge.target, set()).add(("from", edge.source, edge.kind, edge.label))
    found: dict[object, list[str]] = {}
    for step in description.steps:
        if step.name in ways and step.name not in frames:
            found.setdefault((step.parent, step.person, frozenset(ways[step.name])), []).append(step.name)
    return {f"{SIMILAR}{steps[0]}": tuple(steps) for steps in found.values() if len(steps) >= LEAST_SIMILAR}


def _without(steps: tuple[str, ...], apart: Collection[str]) -> tuple[str, ...]:
    """Return the steps of a group without those that are drawn apart; all of them where those are many."""
    shown = [step for step in steps if step in apart]
    return tuple(step for step in steps if step not in shown) if len(shown) <= MOST_APART else steps


def _with_groups(
    description: Description, similar: Mapping[str, tuple[str, ...]], into: Mapping[str, str]
) -> Description:
    """Return the graph with one step per group, where its first one was."""
    firsts = {steps[0]: name for name, steps in similar.items()}
    drawn = _drawn(description, into)
    titles = {step.name: step.title or step.name.rpartition("/")[2] for step in description.steps}
    steps = [
        _group_step(step, firsts[step.name], [titles[name] for name in similar[firsts[step.name]]])
        if step.name in firsts
        else step
        for step in description.steps
        if step.name in firsts or step.name not in into
    ]
    return drawn.model_copy(update={"steps": tuple(steps)})


def _group_step(first: StepInfo, name: str, titles: list[str]) -> StepInfo:
    """Return the step that represents a group: called by what its steps' titles have in common."""
    letters = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*titles, strict=False))
    common = "".join(one for one, *_ in letters).rstrip("0123456789 -_.:#(").strip()
    number = f"{len(titles)} similar"
    return StepInfo(
        name=name, title=f"{common}: {number}" if common else number, person=first.person, parent=first.parent
    )


def _drawn_as(name: str, parents: dict[str, str | None], opened: Container[str]) -> str:
    """Return the outermost closed sub-workflow around a step, or the step itself; circular parents have none."""
    line = [name]
    while (above := parents.get(line[-1])) is not None and above in parents:
        if above in line:
            return name
        line.append(above)
    return next((one for one in reversed(line[1:]) if ALL not in opened and one not in opened), name)

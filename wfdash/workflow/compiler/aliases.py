"""Earlier names of steps (``was=``): the current node of each name of an older graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice, product

from wfdash.workflow.authoring.steps import Step
from wfdash.workflow.compiler.graph import Graph
from wfdash.workflow.compiler.plan import ENTRY, Definition, GraphPlan, Sub

MOST_COMBINATIONS = 512
"""Combinations of earlier names that are tried for the one that gives a version."""


def read_aliases(definition: Definition, plan: GraphPlan, prefix: str = "") -> dict[str, tuple[str, ...]]:
    """Return step or sub-workflow -> its earlier last name parts; problems go to the plan."""
    if any(problem.endswith("contains itself") for problem in plan.problems):
        return {}
    items: list[tuple[str, Step | Sub]] = [*definition.steps.items(), *definition.subs.items()]
    found = {prefix + name: item.was for name, item in items if item.was}
    taken = Counter(name for name, _ in items)
    taken.update(old for _, item in items for old in set(item.was))
    for name, item in items:
        for old in (old for old in item.was if taken[old] > 1):
            plan.problems.append(f"step {prefix + name!r}: was={old!r} is a name that another step has or had")
    for name, sub in definition.subs.items():
        found |= read_aliases(sub.child, plan, f"{prefix}{name}/")
    return found


def earlier_names(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return node -> all names it may have had before, sub-workflow prefixes included; nodes without any are left
    out.
    """
    found = {name: tuple(old for old in _spellings(graph, name) if old != name) for name in graph.nodes}
    return {name: olds for name, olds in found.items() if olds}


def _spellings(graph: Graph, name: str) -> Iterator[str]:
    parts = name.removesuffix(ENTRY).split("/")
    paths = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    choices = [(part, *graph.aliases.get(path, ())) for part, path in zip(parts, paths, strict=True)]
    tail = ENTRY if name.endswith(ENTRY) else ""
    return ("/".join(chosen) + tail for chosen in product(*choices))


def combinations(graph: Graph) -> Iterator[dict[str, str]]:
    """Yield node -> earlier name: everything by its earlier name first, ``MOST_COMBINATIONS`` at most."""
    paths = list(graph.aliases)
    choices = [(*graph.aliases[path], path.rsplit("/", 1)[-1]) for path in paths]
    for chosen in islice(product(*choices), MOST_COMBINATIONS):
        yield spell_nodes(graph, dict(zip(paths, chosen, strict=True)))


def spelling_of(graph: Graph, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return node -> earlier name, given which steps were renamed (name -> earlier name)."""
    parts = {}
    for path in graph.aliases:
        for name, old in renamed.items():
            if f"{name}/".startswith(f"{path}/"):
                parts[path] = old.split("/")[path.count("/")]
    return spell_nodes(graph, parts)


def spell_nodes(graph: Graph, parts: Mapping[str, str]) -> dict[str, str]:
    """Return node -> its name with other last parts for some steps and sub-workflows."""
    return {name: _spell(name, parts) for name in graph.nodes}


def _spell(name: str, parts: Mapping[str, str]) -> str:
    path, tail = name.removesuffix(ENTRY), ENTRY if name.endswith(ENTRY) else ""
    own = path.split("/")
    spelt = [parts.get("/".join(own[: depth + 1]), part) for depth, part in enumerate(own)]
    return "/".join(spelt) + tail

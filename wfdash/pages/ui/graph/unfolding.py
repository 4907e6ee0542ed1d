"""Which parts of a graph are open, as the parameter ``unfold`` of an address names them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from wfdash.contract import Description
from wfdash.pages.ui.graph.drawing import Drawing
from wfdash.pages.ui.graph.folding import ALL, Folded, fold
from wfdash.pages.ui.graph.graph import RunOverlay, layout


def opened_in(text: str) -> tuple[str, ...]:
    """Return the names of what is open, comma-separated in an address."""
    return tuple(name for name in text.split(",") if name)


def opening(opened: Iterable[str], name: str) -> str:
    """Return what is open with this one as well."""
    return ",".join(dict.fromkeys([*opened, name]))


def closing(opened: Collection[str], name: str, folded: Folded) -> str:
    """Return what is open without this one; ``*`` means all of it."""
    parents = {step.parent for step in folded.description.steps if step.parent} | folded.groups
    every = parents if ALL in opened else set(opened)
    return ",".join(sorted(every - {name}))


def draw_definition(description: Description, opened: Collection[str], link: Callable[[str], str]) -> Drawing:
    """Return the drawing of a workflow without a run. ``link``: the address at which these parts are open."""
    folded = fold(description, opened)
    extras = RunOverlay(
        links=lambda name: link(opening(opened, name)) if name in folded.folded else "",
        closing=lambda name: link(closing(opened, name, folded)),
        folded=folded.folded,
        similar={name: len(steps) for name, steps in folded.similar.items()},
    )
    return layout(folded.description, extras=extras)

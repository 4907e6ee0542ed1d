"""The graph of one run: what every step is doing, how long it took, what it was tried again; sub-workflows folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from wfdash.contract import Description
from wfdash.pages.graph import Extras, Folded, Graph, fold, layout, travelled
from wfdash.pages.spans import Spans, busy
from wfdash.pages.timefmt import duration
from wfdash.queries import Move, StepCounts

Link = Callable[..., str]
"""Makes an address of the present page with these parts of it changed."""


def draw(
    described: Description,
    moved: Sequence[Move],
    counts: Mapping[str, StepCounts],
    found: Mapping[str, Spans],
    *,
    link: Link,
    opened: Container[str] = (),
    chosen: str = "",
) -> Graph:
    """Return the drawing. ``counts``, ``found``: what each step does and did; ``opened``: sub-workflows open."""
    folded = fold(described, opened)
    names = folded.names
    again = Counter(names.get(move.step, move.step) for move in moved if move.state == "retrying")
    times = _times(found, names)
    notes = {name: _note(busy(times[name]).total_seconds(), again[name]) for name in times}
    taken = {(names.get(a, a), names.get(b, b)) for a, b in travelled(described.edges, moved)}
    extras = Extras(
        notes=notes,
        links=lambda name: link(unfold=_with(opened, name), step="") if name in folded.folded else link(step=name),
        closing=lambda name: link(unfold=_without(opened, name, folded)),
        folded=folded.folded,
        chosen=names.get(chosen, chosen),
    )
    return layout(folded.description, _merged(counts, names), taken, extras)


def _merged(counts: Mapping[str, StepCounts], names: dict[str, str]) -> dict[str, Counter[str]]:
    merged: dict[str, Counter[str]] = {}
    for step, one in counts.items():
        merged.setdefault(names.get(step, step), Counter()).update(vars(one))
    return merged


def _times(found: Mapping[str, Spans], names: dict[str, str]) -> dict[str, Spans]:
    merged: dict[str, Spans] = {}
    for step, spans in found.items():
        mine = merged.setdefault(names.get(step, step), {})
        for state, parts in spans.items():
            mine[state] = [*mine.get(state, ()), *parts]
    return merged


def _note(seconds: float, again: int) -> str:
    tried = f" · {again} retr{'y' if again == 1 else 'ies'}" if again else ""
    return f"{duration(seconds)}{tried}"


def _with(opened: Any, name: str) -> str:
    return ",".join([*dict.fromkeys([*opened, name])])


def _without(opened: Any, name: str, folded: Folded) -> str:
    """Return what stays open without this one; ``*`` stands for all of them."""
    parents = {step.parent for step in folded.description.steps if step.parent}
    every = parents if "*" in opened else set(opened)
    return ",".join(sorted(every - {name}))

"""Where a run stands when it asks: the way of steps it came, where it is, what is still ahead. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wfdash.contract import Description
from wfdash.pages.words import called

NEAR = 3
"""Steps shown on either side; what is beyond them is counted."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A step on the way. ``state``: done | here | ahead | more (then ``title`` says how many)."""

    title: str
    state: str


def stand(description: Description, step: str) -> tuple[Stop, ...]:
    """Return the longest way through the graph that passes this step, loops left out; nothing if it is not there."""
    titles = {info.name: info.title or called(info.name) for info in description.steps}
    if step not in titles:
        return ()
    order = {name: place for place, name in enumerate(titles)}
    known = [(edge.source, edge.target) for edge in description.edges if {edge.source, edge.target} <= set(order)]
    forward = [(source, target) for source, target in known if order[source] < order[target]]
    came = _longest(step, [(target, source) for source, target in forward], sorted(order, key=lambda n: order[n]))
    goes = _longest(step, forward, sorted(order, key=lambda n: -order[n]))
    here = Stop(title=titles[step], state="here")
    return (*_side([titles[n] for n in came], "done")[::-1], here, *_side([titles[n] for n in goes], "ahead"))


def _longest(step: str, links: list[tuple[str, str]], order: list[str]) -> list[str]:
    """Return the steps of the longest way from the step. ``order``: what a step leads to comes before it."""
    following: dict[str, list[str]] = {}
    for source, target in links:
        following.setdefault(source, []).append(target)
    length: dict[str, int] = {}
    best: dict[str, str] = {}
    for name in order:
        length[name] = 0
        for other in following.get(name, ()):
            if length[other] + 1 > length[name]:
                length[name], best[name] = length[other] + 1, other
    return _trace(step, best)


def _trace(step: str, best: Mapping[str, str]) -> list[str]:
    way: list[str] = []
    while step in best:
        step = best[step]
        way.append(step)
    return way


def _side(titles: list[str], state: str) -> list[Stop]:
    """Return the nearest steps first, then how many more there are."""
    far = len(titles) - NEAR
    near = [Stop(title=title, state=state) for title in (titles[:NEAR] if far > 1 else titles)]
    return [*near, *([Stop(title=f"{far} more", state="more")] if far > 1 else [])]

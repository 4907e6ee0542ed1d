"""Recorded calls along a line of checkpoints: what was done outside, and would be done again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from django.db.models import Count, Q

from checkpoints.models import Effect
from wfdash.edits import Doing
from wfdash.queries.lineage import Node, newest_below, origins_of, path_to

Named = tuple[str, str, bool]
"""Step, name, once."""


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Recorded calls of one name in one step."""

    step: str
    name: str
    once: bool = False
    times: int = 1


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What was done outside, seen from a checkpoint."""

    kept: tuple[Calls, ...] = ()
    """Done before it: their results are on record, they are not made again."""
    repeated: tuple[Calls, ...] = ()
    """Done after it, or cut off there: they are made again if the run takes the same way."""
    unknown: tuple[Calls, ...] = ()
    """Nobody knows whether they happened; they may be made again."""
    elsewhere: tuple[Calls, ...] = ()
    """Done on other branches; they stay done."""


def outside(
    run_id: str, nodes: list[Node], chosen: str, doing: Iterable[Doing] = (), afresh: Iterable[str] = ()
) -> Outside:
    """Return it (five queries, three more per fork it came from). ``nodes``: the run's tree.

    ``doing``: what is under way at the checkpoint; ``afresh``: activations that start over, whatever they have done.
    """
    newest = newest_below(nodes, chosen)
    lines = origins_of(run_id, nodes, chosen)
    before = {node.n for node in lines[0][1]}
    after = [node for node in path_to(nodes, newest.id if newest else chosen) if node.n not in before]
    head = max((node.n for node in nodes), default=0)
    late = Q(n__gt=head) if newest and newest.n == head else Q(pk__in=[])
    kept, lost = Counter[Named](), _dropped(doing, afresh)
    for run, path in lines:
        kept += _counted(Q(run_id=run) & _within(path), ("done",))
    repeated = _counted(Q(run_id=run_id) & (_within(after) | late), ("done",))
    unknown = _counted(Q(run_id=run_id) & (_within(after) | late), ("intended", "unknown"))
    there = _within(lines[0][1]) | _within(after) | late
    cut = Counter((one.step, call.name, call.once) for one in doing for call in one.calls if call.state == "again")
    asked = Counter((one.step, call.name, call.once) for one in doing for call in one.calls if call.state == "unknown")
    return Outside(
        kept=_listed(kept - lost),
        repeated=_listed((repeated | cut) + (lost & kept)),
        unknown=_listed(unknown | asked),
        elsewhere=_listed(_counted(Q(run_id=run_id) & ~there, ("done",))),
    )


def _dropped(doing: Iterable[Doing], afresh: Iterable[str]) -> Counter[Named]:
    over = set(afresh)
    calls = (one for one in doing if one.activation in over)
    return Counter((one.step, call.name, call.once) for one in calls for call in one.calls if call.state == "done")


def _within(path: Iterable[Node]) -> Q:
    """Return the filter of what was recorded with these checkpoints: one range per stretch without a gap."""
    numbers = sorted(node.n for node in path)
    either = Q(pk__in=[])
    for _, stretch in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        ns = [n for _, n in stretch]
        either |= Q(n__gte=ns[0], n__lte=ns[-1])
    return either


def _counted(where: Q, states: tuple[str, ...]) -> Counter[Named]:
    rows = (
        Effect.objects.filter(where, state__in=states).values_list("step", "name", "once").annotate(times=Count("id"))
    )
    return Counter({(step, name, once): times for step, name, once, times in rows.order_by()})


def _listed(counted: Counter[Named]) -> tuple[Calls, ...]:
    return tuple(
        Calls(step=step, name=name, once=once, times=times)
        for (step, name, once), times in sorted(counted.items())
        if times > 0
    )

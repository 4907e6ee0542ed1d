"""Side effects on a branch of checkpoints: recorded calls that are done, and that would be repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from django.db.models import Count, Q

from checkpoints.models import Effect
from wfdash.contract import ActivationInfo
from wfdash.queries.history.lineage import CheckpointNode, newest_below, origins_of, path_to
from wfdash.records.time_machine import CallRecord, SideEffectsRecord

CallKey = tuple[str, str, bool]
"""Step, name, once."""


def side_effects(
    run_id: str,
    nodes: list[CheckpointNode],
    chosen: str,
    doing: Iterable[ActivationInfo] = (),
    afresh: Iterable[str] = (),
) -> SideEffectsRecord:
    """Return the side effects (five queries, three more per ancestor fork). ``nodes``: the run's tree.

    ``doing``: the activations in progress at the checkpoint; ``afresh``: those that restart without their journal.
    """
    newest = newest_below(nodes, chosen)
    lines = origins_of(run_id, nodes, chosen)
    before = {node.n for node in lines[0][1]}
    after = [node for node in path_to(nodes, newest.id if newest else chosen) if node.n not in before]
    head = max((node.n for node in nodes), default=0)
    late = Q(n__gt=head) if newest and newest.n == head else Q(pk__in=[])
    kept, lost = Counter[CallKey](), _dropped(doing, afresh)
    for run, path in lines:
        kept += _count_calls(Q(run_id=run) & _recorded_within(path), ("done",))
    repeated = _count_calls(Q(run_id=run_id) & (_recorded_within(after) | late), ("done",))
    unknown = _count_calls(Q(run_id=run_id) & (_recorded_within(after) | late), ("intended", "unknown"))
    there = _recorded_within(lines[0][1]) | _recorded_within(after) | late
    cut = Counter((one.step, call.name, call.once) for one in doing for call in one.calls if call.state == "again")
    asked = Counter((one.step, call.name, call.once) for one in doing for call in one.calls if call.state == "unknown")
    return SideEffectsRecord.trusted(
        kept=_recorded_calls(kept - lost),
        repeated=_recorded_calls((repeated | cut) + (lost & kept)),
        unknown=_recorded_calls(unknown | asked),
        elsewhere=_recorded_calls(_count_calls(Q(run_id=run_id) & ~there, ("done",))),
    )


def _dropped(doing: Iterable[ActivationInfo], afresh: Iterable[str]) -> Counter[CallKey]:
    over = set(afresh)
    calls = (one for one in doing if one.activation in over)
    return Counter((one.step, call.name, call.once) for one in calls for call in one.calls if call.state == "done")


def _recorded_within(path: Iterable[CheckpointNode]) -> Q:
    """Return the filter of calls recorded with these checkpoints: one condition per contiguous range."""
    numbers = sorted(node.n for node in path)
    either = Q(pk__in=[])
    for _, stretch in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        ns = [n for _, n in stretch]
        either |= Q(n__gte=ns[0], n__lte=ns[-1])
    return either


def _count_calls(where: Q, states: tuple[str, ...]) -> Counter[CallKey]:
    rows = (
        Effect.objects.filter(where, state__in=states).values_list("step", "name", "once").annotate(times=Count("id"))
    )
    return Counter({(step, name, once): times for step, name, once, times in rows.order_by()})


def _recorded_calls(counted: Counter[CallKey]) -> tuple[CallRecord, ...]:
    return tuple(
        CallRecord.trusted(step=step, name=name, once=once, times=times)
        for (step, name, once), times in sorted(counted.items())
        if times > 0
    )

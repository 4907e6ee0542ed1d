"""What restoring or forking a checkpoint means for steps: which restart, run again later, or keep their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from checkpoints.records import Request
from wfdash.contract import ActivationInfo
from wfdash.queries.history.lineage import CheckpointNode, EventRange, current_ranges, newest_below, ranges_of
from wfdash.queries.history.step_outcomes import StepTransition
from wfdash.queries.history.step_states import transitions_within
from wfdash.records.time_machine import FinishedStepRecord, RestartedStep

Transitions = dict[tuple[str, str], StepTransition]
DOES = {"waiting": "waits", "sleeping": "sleeps", "retrying": "retries"}


def ranges_after(run_id: str, nodes: list[CheckpointNode], checkpoint_id: str) -> list[EventRange]:
    """Return the event ranges up to the newest descendant of the checkpoint: the head, if that is one."""
    newest = newest_below(nodes, checkpoint_id)
    if newest is None or newest.id == nodes[-1].id:
        return current_ranges(run_id, nodes)
    return ranges_of(run_id, nodes, newest.id)


def last_transitions(spans: list[EventRange]) -> Transitions:
    """Return (step, activation) -> its last transition."""
    return {(move.step, move.activation): move for move in transitions_within(spans)}


def restarted(doing: Iterable[ActivationInfo], afresh: frozenset[str]) -> tuple[RestartedStep, ...]:
    """Return what restarts, as the engine says, counted by step; ``afresh``: activations with an edited message."""
    counted: Counter[tuple[str, str, bool]] = Counter()
    until: dict[tuple[str, str, bool], datetime | None] = {}
    for one in doing:
        if one.shown:
            place = (one.step, one.does, one.activation in afresh)
            counted[place] += 1
            times = [time for time in (until.get(place), one.until) if time]
            until[place] = min(times, default=None)
    return tuple(
        RestartedStep.trusted(step=step, does=does, until=until[step, does, fresh], times=times, afresh=fresh)
        for (step, does, fresh), times in counted.items()
    )


def restarted_by_events(then: Transitions, asked: Iterable[Request]) -> tuple[RestartedStep, ...]:
    """Return what restarts as far as events say: steps without an end, and those that ask."""
    states = {(step, DOES.get(move.state, "runs")): 0 for (step, _), move in then.items() if move.state != "done"}
    known = {step for step, _ in states}
    found = [RestartedStep.trusted(step=step, does=does) for step, does in states]
    found += [
        RestartedStep.trusted(step=step, does="waits")
        for step in dict.fromkeys(r.step for r in asked)
        if step not in known
    ]
    return tuple(found)


def repeated(then: Transitions, now: Transitions, doing: tuple[ActivationInfo, ...] | None) -> tuple[str, ...]:
    """Return the steps that started after the checkpoint; ``doing``: what the engine says is in progress there."""
    in_progress = {(one.step, one.activation) for one in doing or ()}
    over = {place for place, move in then.items() if move.state == "done"}
    return tuple(dict.fromkeys(step for step, act in now if (step, act) not in over | in_progress))


def finished(then: Transitions) -> tuple[FinishedStepRecord, ...]:
    """Return the steps that had finished by the checkpoint."""
    counted = Counter(step for (step, _), move in then.items() if move.state == "done")
    return tuple(FinishedStepRecord.trusted(step=step, times=times) for step, times in counted.items())
